// What the page takes from libraries, in one module: Preact by h() calls, its hooks, and signals.
export {
  Component, Fragment, cloneElement, createContext, createRef, h, isValidElement, render, toChildArray,
} from "preact";
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "preact/hooks";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "@preact/signals";
