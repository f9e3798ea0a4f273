// A partition in a row: of a topic whose name is too long the end is left out, never the number.
import { h } from "../vendor/vendor.js";

/** @param {{topic: string, partition: number}} props */
export function PartitionName({ topic, partition }) {
  return h("span", { class: "partition-name" }, h("span", null, topic), `-${partition}`);
}
