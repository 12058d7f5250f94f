/**
 * The codec: Protocol Buffers, as far as the schema uses them.
 *
 * Input may be hostile: it is refused, never trusted. A message of a few bytes can stand for
 * one of hundreds in memory, so that reading has a budget.
 */

import { Error, ErrorCode } from "./generated";
import { fail } from "./host";

/** What a message may take of memory once it is read. */
export const MEMORY_MAX: i32 = 64 << 20;

/** Groups in one another, which nothing writes any more. */
const DEPTH_MAX: i32 = 100;

/** What a text takes beside its letters. */
const TEXT: i32 = 64;

// What follows a tag.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;

/** Returns a message as bytes. */
export function encode<M>(message: M): Uint8Array {
  const to = new Writer();
  message.write(to);
  return to.taken();
}

/**
 * Reads a message, of at most MEMORY_MAX, into one that is new. Unknown fields are skipped;
 * text that is not UTF-8 becomes U+FFFD. The error is null where the bytes are a message.
 */
export function decode<M>(bytes: Uint8Array, message: M): Error | null {
  const from = new Reader(bytes);
  message.read(from);
  switch (from.refused) {
    case ErrorCode.UNSPECIFIED:
      return null;
    case ErrorCode.RESOURCE_EXHAUSTED:
      return fail(from.refused, "the message takes too much memory");
    default:
      return fail(from.refused, "the message makes no sense");
  }
}

/** Reads a message field by field. What is wrong ends it: there are no more fields then. */
export class Reader {
  /** Why the bytes are no message; UNSPECIFIED: nothing is wrong so far. */
  refused: ErrorCode = ErrorCode.UNSPECIFIED;
  private at: usize;
  private end: usize;
  private budget: i32 = MEMORY_MAX;
  private kind: u32 = 0;

  constructor(private source: Uint8Array) {
    this.at = source.dataStart;
    this.end = source.dataStart + source.length;
  }

  /** Goes to the next field, and returns its number; 0: there is none. */
  next(): i32 {
    if (this.refused != ErrorCode.UNSPECIFIED || this.at == this.end) return 0;
    const tag = this.varint();
    this.kind = <u32>(tag & 7);
    const number = <i32>(tag >> 3);
    if (number <= 0) this.refuse(ErrorCode.INVALID_ARGUMENT);
    return this.refused != ErrorCode.UNSPECIFIED ? 0 : number;
  }

  private refuse(code: ErrorCode): void {
    if (this.refused == ErrorCode.UNSPECIFIED) this.refused = code;
    this.at = this.end;
  }

  private take(bytes: i32): void {
    this.budget -= bytes;
    if (this.budget < 0) {
      this.budget = 0;
      this.refuse(ErrorCode.RESOURCE_EXHAUSTED);
    }
  }

  private varint(): u64 {
    let v: u64 = 0;
    for (let i = 0; i < 10 && this.at < this.end; i++) {
      const byte = <u64>load<u8>(this.at++);
      if (i == 9 && byte > 1) break;
      v |= (byte & 127) << (7 * i);
      if (byte < 128) return v;
    }
    this.refuse(ErrorCode.INVALID_ARGUMENT);
    return 0;
  }

  /** Reads a length, and returns the end of what is that long. */
  private after(): usize {
    const size = this.varint();
    if (size > <u64>(this.end - this.at)) {
      this.refuse(ErrorCode.INVALID_ARGUMENT);
      return this.end;
    }
    return this.at + <usize>size;
  }

  private advance(bytes: usize): void {
    if (bytes > this.end - this.at) this.refuse(ErrorCode.INVALID_ARGUMENT);
    else this.at += bytes;
  }

  /** Passes over a field that is not known. */
  skip(): void {
    if (this.kind == GROUP) this.skipGroup();
    else this.skipValue(this.kind);
  }

  private skipValue(kind: u32): void {
    switch (kind) {
      case VARINT:
        this.varint();
        break;
      case FIXED64:
        this.advance(8);
        break;
      case BYTES:
        this.at = this.after();
        break;
      case FIXED32:
        this.advance(4);
        break;
      default:
        this.refuse(ErrorCode.INVALID_ARGUMENT);
    }
  }

  private skipGroup(): void {
    for (let depth = 1; depth > 0 && this.refused == ErrorCode.UNSPECIFIED; ) {
      const kind = <u32>(this.varint() & 7);
      if (kind == GROUP) depth++;
      else if (kind == GROUP_END) depth--;
      else this.skipValue(kind);
      if (depth > DEPTH_MAX) this.refuse(ErrorCode.INVALID_ARGUMENT);
    }
  }

  /** Refuses a field whose value is not of the kind that it is known with. */
  private expect(kind: u32): bool {
    if (this.kind != kind) this.refuse(ErrorCode.INVALID_ARGUMENT);
    return this.kind == kind;
  }

  bool(): bool {
    return this.uint64() != 0;
  }

  int32(): i32 {
    return <i32>this.uint64();
  }

  uint32(): u32 {
    return <u32>this.uint64();
  }

  int64(): i64 {
    return <i64>this.uint64();
  }

  uint64(): u64 {
    return this.expect(VARINT) ? this.varint() : 0;
  }

  double(): f64 {
    if (!this.expect(FIXED64)) return 0;
    const from = this.at;
    this.advance(8);
    return this.refused == ErrorCode.UNSPECIFIED ? load<f64>(from) : 0;
  }

  bytes(): Uint8Array {
    if (!this.expect(BYTES)) return new Uint8Array(0);
    const end = this.after();
    const size = <i32>(end - this.at);
    this.take(size + 2 * TEXT);
    if (this.refused != ErrorCode.UNSPECIFIED) return new Uint8Array(0);
    const value = new Uint8Array(size);
    memory.copy(value.dataStart, this.at, size);
    this.at = end;
    return value;
  }

  string(): string {
    if (!this.expect(BYTES)) return "";
    const end = this.after();
    const size = <i32>(end - this.at);
    this.take(2 * size + TEXT);
    if (this.refused != ErrorCode.UNSPECIFIED) return "";
    const value = text(this.at, size);
    this.at = end;
    return value;
  }

  /** Reads a list of numbers, or one more of it. */
  packed(list: u32[]): void {
    if (this.kind == VARINT) {
      this.take(8);
      list.push(<u32>this.varint());
      return;
    }
    const end = this.enter();
    while (this.at < this.end) {
      this.take(8);
      list.push(<u32>this.varint());
    }
    this.end = end;
  }

  /** Makes what has a length all that there is, and returns the end from before. */
  private enter(): usize {
    const end = this.end;
    if (this.expect(BYTES)) this.end = this.after();
    if (this.refused != ErrorCode.UNSPECIFIED) this.at = this.end;
    return end;
  }

  /** Reads a message into the one that is there, or a new one, which takes so many bytes. */
  message<M>(there: M | null, size: i32): M {
    let message = there;
    if (message === null) {
      this.take(2 * size);
      message = instantiate<M>();
    }
    const end = this.enter();
    message.read(this);
    this.end = end;
    return message;
  }

  /** Reads an entry of a map, whose value is a text, a number or a message of so many bytes. */
  entry<V>(map: Map<string, V>, size: i32): void {
    const end = this.enter();
    this.take(2 * size + 2 * TEXT);
    let key = "";
    let value = isString<V>() ? changetype<V>("") : isInteger<V>() ? <V>0 : instantiate<V>();
    for (let number = this.next(); number != 0; number = this.next()) {
      if (number == 1) key = this.string();
      else if (number != 2) this.skip();
      else if (isString<V>()) value = changetype<V>(this.string());
      else if (isInteger<V>()) value = <V>this.uint64();
      else value = this.message<V>(value, size);
    }
    map.set(key, value);
    this.end = end;
  }
}

/** Bytes that grow. */
export class Writer {
  private buffer: ArrayBuffer = new ArrayBuffer(256);
  private size: i32 = 0;

  /** Returns what was written. */
  taken(): Uint8Array {
    return Uint8Array.wrap(this.buffer, 0, this.size);
  }

  /** Makes room for bytes, and returns where it is. */
  private room(bytes: i32): usize {
    const size = this.size;
    this.size += bytes;
    if (this.size > this.buffer.byteLength) {
      const larger = new ArrayBuffer(max(this.size, 2 * this.buffer.byteLength));
      memory.copy(changetype<usize>(larger), changetype<usize>(this.buffer), size);
      this.buffer = larger;
    }
    return changetype<usize>(this.buffer) + size;
  }

  private varint(v: u64): void {
    while (v > 127) {
      store<u8>(this.room(1), <u8>v | 128);
      v >>= 7;
    }
    store<u8>(this.room(1), <u8>v);
  }

  private tag(number: i32, kind: u32): void {
    this.varint((<u64>number << 3) | kind);
  }

  /** Begins what has a length, which is one byte in most cases. */
  private begin(number: i32): i32 {
    this.tag(number, BYTES);
    this.room(1);
    return this.size;
  }

  private end(begin: i32): void {
    const size = this.size - begin;
    let more = 0;
    for (let rest = size >> 7; rest > 0; rest >>= 7) more++;
    this.room(more);
    const from = changetype<usize>(this.buffer) + begin;
    if (more > 0) memory.copy(from + more, from, size);
    const behind = this.size;
    this.size = begin - 1;
    this.varint(size);
    this.size = behind;
  }

  bool(number: i32, v: bool): void {
    this.uint64(number, v ? 1 : 0);
  }

  int32(number: i32, v: i32): void {
    this.int64(number, v);
  }

  uint32(number: i32, v: u32): void {
    this.uint64(number, v);
  }

  int64(number: i32, v: i64): void {
    this.uint64(number, <u64>v);
  }

  uint64(number: i32, v: u64): void {
    this.tag(number, VARINT);
    this.varint(v);
  }

  double(number: i32, v: f64): void {
    this.tag(number, FIXED64);
    store<f64>(this.room(8), v);
  }

  bytes(number: i32, v: Uint8Array): void {
    this.tag(number, BYTES);
    this.varint(v.length);
    memory.copy(this.room(v.length), v.dataStart, v.length);
  }

  string(number: i32, v: string): void {
    const size = String.UTF8.byteLength(v);
    this.tag(number, BYTES);
    this.varint(size);
    String.UTF8.encodeUnsafe(changetype<usize>(v), v.length, this.room(size), false, String.UTF8.ErrorMode.REPLACE);
  }

  strings(number: i32, list: string[]): void {
    for (let i = 0; i < list.length; i++) this.string(number, list[i]);
  }

  packed(number: i32, list: u32[]): void {
    if (list.length == 0) return;
    const begin = this.begin(number);
    for (let i = 0; i < list.length; i++) this.varint(list[i]);
    this.end(begin);
  }

  message<M>(number: i32, v: M | null): void {
    if (v === null) return;
    const begin = this.begin(number);
    v.write(this);
    this.end(begin);
  }

  messages<M>(number: i32, list: M[]): void {
    for (let i = 0; i < list.length; i++) this.message<M>(number, list[i]);
  }

  entries<V>(number: i32, map: Map<string, V>): void {
    const keys = map.keys();
    for (let i = 0; i < keys.length; i++) {
      const begin = this.begin(number);
      this.string(1, keys[i]);
      if (isString<V>()) this.string(2, changetype<string>(map.get(keys[i])));
      else if (isInteger<V>()) this.uint64(2, <u64>map.get(keys[i]));
      else this.message<V>(2, map.get(keys[i]));
      this.end(begin);
    }
  }
}

/** Returns the bytes of a text in UTF-8. */
export function utf8(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE));
}

/** Returns the text that bytes are in UTF-8; each byte that is not becomes U+FFFD. */
export function fromUtf8(bytes: Uint8Array): string {
  return text(bytes.dataStart, bytes.length);
}

/** The same of bytes in memory, which somebody else keeps there. */
export function text(from: usize, size: i32): string {
  // No letter has more units than bytes.
  let out = changetype<string>(__new(<usize>size << 1, idof<string>()));
  const end = from + size;
  let to = changetype<usize>(out);
  while (from < end) {
    const letter = point(from, end);
    from += <usize>(letter >> 24);
    let v = letter & 0xffffff;
    if (v >= 0x10000) {
      v -= 0x10000;
      store<u16>(to, <u16>(0xd800 | (v >> 10)));
      to += 2;
      v = 0xdc00 | (v & 0x3ff);
    }
    store<u16>(to, <u16>v);
    to += 2;
  }
  const units = to - changetype<usize>(out);
  if (units < <usize>size << 1) out = changetype<string>(__renew(changetype<usize>(out), units));
  return out;
}

/** Reads a letter: how many bytes it has in the highest byte, and what it is. */
function point(from: usize, end: usize): u32 {
  const first = <u32>load<u8>(from);
  if (first < 0x80) return (1 << 24) | first;
  let more: u32 = 0;
  let v: u32 = 0;
  let least: u32 = 0;
  if (first >= 0xc2 && first < 0xe0) {
    more = 1;
    v = first & 31;
  } else if ((first & 0xf0) == 0xe0) {
    more = 2;
    v = first & 15;
    least = 0x800;
  } else if (first >= 0xf0 && first < 0xf5) {
    more = 3;
    v = first & 7;
    least = 0x10000;
  } else {
    return (1 << 24) | 0xfffd;
  }
  if (end - from <= more) return (1 << 24) | 0xfffd;
  for (let i: u32 = 1; i <= more; i++) {
    const byte = <u32>load<u8>(from + i);
    if ((byte & 0xc0) != 0x80) return (1 << 24) | 0xfffd;
    v = (v << 6) | (byte & 63);
  }
  if (v < least || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return (1 << 24) | 0xfffd;
  return ((more + 1) << 24) | v;
}
