/**
 * Reads the JSON of configurations. The node has checked it against the plugin's schema and
 * filled in its defaults, so that a plugin asks for values and has no errors to check: what is
 * not there, or of another type, is empty.
 */

import { text } from "./wire";

/** Objects and lists in one another. */
const DEPTH_MAX: i32 = 64;

/** What a JSON value is. */
export enum JsonKind {
  NULL,
  BOOL,
  NUMBER,
  TEXT,
  LIST,
  OBJECT,
}

/** A JSON value. */
export class Json {
  kind: JsonKind = JsonKind.NULL;
  /** A text; a number as it was written; "true" or "false". */
  value: string = "";
  /** The names of an object's members, which are in elements. */
  names: string[] = [];
  /** The values of a list, or of an object's members. */
  elements: Json[] = [];

  /** Reads one value; null: the text is not JSON. */
  static parse(bytes: Uint8Array): Json | null {
    const parser = new Parser(bytes);
    const value = parser.value(0);
    return parser.space() < 0 && !parser.failed ? value : null;
  }

  /** The member of an object; null where there is none. Of the same name the last one counts. */
  get(name: string): Json {
    for (let i = this.names.length - 1; i >= 0; i--) {
      if (this.names[i] == name) return this.elements[i];
    }
    return new Json();
  }

  text(): string {
    return this.kind == JsonKind.TEXT ? this.value : "";
  }

  bool(): bool {
    return this.kind == JsonKind.BOOL && this.value == "true";
  }

  /** A whole number; 0 for one that is none or does not fit. */
  int(): i64 {
    const digits = this.value;
    const negative = digits.startsWith("-");
    if (this.kind != JsonKind.NUMBER) return 0;
    let v: i64 = 0; // below zero, where there is one number more
    for (let i = negative ? 1 : 0; i < digits.length; i++) {
      const digit = digits.charCodeAt(i) - 48;
      if (digit < 0 || digit > 9 || v < (i64.MIN_VALUE + digit) / 10) return 0;
      v = v * 10 - digit;
    }
    if (negative) return v;
    return v == i64.MIN_VALUE ? 0 : -v;
  }

  float(): f64 {
    return this.kind == JsonKind.NUMBER ? parseFloat(this.value) : 0;
  }

  /** The elements of a list. */
  items(): Json[] {
    return this.kind == JsonKind.LIST ? this.elements : [];
  }

  /** The texts of a list. */
  texts(): string[] {
    const items = this.items();
    const texts: string[] = [];
    for (let i = 0; i < items.length; i++) texts.push(items[i].text());
    return texts;
  }
}

class Parser {
  failed: bool = false;
  private at: i32 = 0;

  constructor(private source: Uint8Array) {}

  /** The byte that comes next; -1: none. */
  private peek(): i32 {
    return this.at < this.source.length ? this.source[this.at] : -1;
  }

  /** Skips white space, and returns the byte behind it. */
  space(): i32 {
    let byte = this.peek();
    while (byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09) {
      this.at++;
      byte = this.peek();
    }
    return byte;
  }

  private skip(byte: i32): bool {
    if (this.failed || this.peek() != byte) return false;
    this.at++;
    return true;
  }

  private need(byte: i32): void {
    if (!this.skip(byte)) this.failed = true;
  }

  value(depth: i32): Json {
    const value = new Json();
    if (depth > DEPTH_MAX) this.failed = true;
    if (this.failed) return value;
    switch (this.space()) {
      case 0x7b: // {
        this.object(value, depth);
        break;
      case 0x5b: // [
        this.list(value, depth);
        break;
      case 0x22: // "
        value.kind = JsonKind.TEXT;
        value.value = this.string();
        break;
      case 0x74: // t
        this.word(value, JsonKind.BOOL, "true");
        break;
      case 0x66: // f
        this.word(value, JsonKind.BOOL, "false");
        break;
      case 0x6e: // n
        this.word(value, JsonKind.NULL, "null");
        break;
      default:
        this.number(value);
    }
    return value;
  }

  private word(value: Json, kind: JsonKind, word: string): void {
    for (let i = 0; i < word.length; i++) this.need(word.charCodeAt(i));
    value.kind = kind;
    value.value = word;
  }

  private object(value: Json, depth: i32): void {
    value.kind = JsonKind.OBJECT;
    this.need(0x7b);
    if (this.space() != 0x7d) {
      do {
        this.space();
        value.names.push(this.string());
        this.space();
        this.need(0x3a);
        value.elements.push(this.value(depth + 1));
        this.space();
      } while (this.skip(0x2c));
    }
    this.need(0x7d);
  }

  private list(value: Json, depth: i32): void {
    value.kind = JsonKind.LIST;
    this.need(0x5b);
    if (this.space() != 0x5d) {
      do {
        value.elements.push(this.value(depth + 1));
        this.space();
      } while (this.skip(0x2c));
    }
    this.need(0x5d);
  }

  private digits(): void {
    const from = this.at;
    while (this.peek() >= 0x30 && this.peek() <= 0x39) this.at++;
    if (this.at == from) this.failed = true;
  }

  private number(value: Json): void {
    const from = this.at;
    this.skip(0x2d);
    if (!this.skip(0x30)) this.digits();
    if (this.skip(0x2e)) this.digits();
    if (this.skip(0x65) || this.skip(0x45)) {
      if (!this.skip(0x2b)) this.skip(0x2d);
      this.digits();
    }
    value.kind = JsonKind.NUMBER;
    value.value = this.piece(from);
  }

  /** The text from a place on to where it is read now. */
  private piece(from: i32): string {
    return text(this.source.dataStart + from, this.at - from);
  }

  private string(): string {
    this.need(0x22);
    let out = "";
    while (!this.failed) {
      const from = this.at;
      while (this.peek() >= 0x20 && this.peek() != 0x22 && this.peek() != 0x5c) this.at++;
      out += this.piece(from);
      if (this.skip(0x22)) return out;
      this.need(0x5c);
      if (!this.failed) out += this.escape();
    }
    return "";
  }

  private escape(): string {
    const byte = this.peek();
    this.at++;
    switch (byte) {
      case 0x22:
      case 0x5c:
      case 0x2f:
        return String.fromCharCode(byte);
      case 0x62:
        return "\b";
      case 0x66:
        return "\f";
      case 0x6e:
        return "\n";
      case 0x72:
        return "\r";
      case 0x74:
        return "\t";
      case 0x75:
        return this.unicode();
      default:
        this.failed = true;
        return "";
    }
  }

  /** Reads what follows "\u", with the second half of a pair. Half a pair becomes U+FFFD. */
  private unicode(): string {
    const high = this.hex();
    if (high < 0xd800 || high > 0xdfff) return String.fromCharCode(high);
    const after = this.at;
    if (high < 0xdc00 && this.skip(0x5c) && this.skip(0x75)) {
      const low = this.hex();
      if (low >= 0xdc00 && low <= 0xdfff) return String.fromCharCode(high) + String.fromCharCode(low);
    }
    this.at = after;
    return "\ufffd";
  }

  private hex(): i32 {
    let v = 0;
    for (let i = 0; i < 4; i++) {
      const digit = this.peek();
      this.at++;
      v <<= 4;
      if (digit >= 0x30 && digit <= 0x39) v |= digit - 0x30;
      else if ((digit | 0x20) >= 0x61 && (digit | 0x20) <= 0x66) v |= (digit | 0x20) - 0x57;
      else this.failed = true;
    }
    return v;
  }
}
