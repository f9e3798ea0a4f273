// JSON as a tree whose numbers stay the text that was written: a double has no 9007199254740993. Pure.

/**
 * A number as it stands in the text.
 */
export class NumberText {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

const DEPTH_MAX = 256;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = /true|false|null/y;

/**
 * The value of a JSON text: objects are lists of pairs, so that nothing of them is lost.
 * @typedef {null | boolean | string | NumberText | {items: JsonValue[]} | {members: [string, JsonValue][]}} JsonValue
 */

/**
 * @param {string} text
 * @returns {{value: JsonValue} | null} null for what is no JSON
 */
export function parseJson(text) {
  const reader = new Reader(text);
  try {
    const value = reader.value(0);
    return reader.atEnd() ? { value } : null;
  } catch (error) {
    if (error instanceof NoJson) return null;
    throw error;
  }
}

class NoJson extends Error {}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /**
   * @param {number} depth
   * @returns {JsonValue}
   */
  value(depth) {
    if (depth > DEPTH_MAX) throw new NoJson();
    this.match(SPACE);
    switch (this.text[this.at]) {
      case "{":
        return { members: this.list("}", () => this.member(depth)) };
      case "[":
        return { items: this.list("]", () => this.value(depth + 1)) };
      case '"':
        return this.string();
    }
    const number = this.match(NUMBER);
    if (number) return new NumberText(number);
    const word = this.match(WORDS);
    if (!word) throw new NoJson();
    return word === "null" ? null : word === "true";
  }

  /**
   * @param {number} depth
   * @returns {[string, JsonValue]}
   */
  member(depth) {
    this.match(SPACE);
    const name = this.string();
    this.match(SPACE);
    this.expect(":");
    return [name, this.value(depth + 1)];
  }

  /**
   * @template T
   * @param {string} end
   * @param {() => T} one
   * @returns {T[]}
   */
  list(end, one) {
    this.at += 1;
    /** @type {T[]} */
    const found = [];
    this.match(SPACE);
    if (this.text[this.at] === end) {
      this.at += 1;
      return found;
    }
    for (;;) {
      found.push(one());
      this.match(SPACE);
      if (this.text[this.at] === end) {
        this.at += 1;
        return found;
      }
      this.expect(",");
    }
  }

  /** @returns {string} */
  string() {
    const written = this.match(STRING);
    if (!written) throw new NoJson();
    return JSON.parse(written);
  }

  atEnd() {
    this.match(SPACE);
    return this.at === this.text.length;
  }

  /** @param {string} character */
  expect(character) {
    if (this.text[this.at] !== character) throw new NoJson();
    this.at += 1;
  }

  /** @param {RegExp} pattern */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) return "";
    this.at += found[0].length;
    return found[0];
  }
}
