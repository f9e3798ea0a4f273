// What charts are drawn with: loaded when the first one is seen (CON-152).
export { default } from "uplot";
