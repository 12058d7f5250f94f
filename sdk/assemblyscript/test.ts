/**
 * A node for tests, which the runner test.mjs starts without one.
 *
 * A module of tests exports functions whose names begin with "test_", and is compiled together
 * with test_host.ts. Each test has an instance of its own. It calls the operations of the
 * plugin; their capabilities are answered by what host was given, and without it with
 * UNIMPLEMENTED.
 */

import { Error, ErrorCode } from "./generated";
import { fail } from "./host";
import { decode, encode } from "./wire";

/** What a capability answers: the bytes of a message, or an error. */
export class Answer {
  error: Error | null = null;

  constructor(public bytes: Uint8Array) {}
}

type Answerer = (capability: string, request: Uint8Array) => Answer;

/** What the node of a test holds. */
export class Node {
  static answerer: Answerer | null = null;
  static input: Uint8Array = new Uint8Array(0);
  static output: Uint8Array | null = null;
  static staged: Uint8Array = new Uint8Array(0);
  static lines: string[] = [];
  static written: u8[] = [];

  /** Asks what answers the capabilities, and keeps what it says. */
  static ask(capability: string, from: usize, length: u32): u64 {
    const answerer = Node.answerer;
    let answer = refuse(fail(ErrorCode.UNIMPLEMENTED, "nothing answers " + capability));
    if (answerer !== null) answer = answerer(capability, Node.copy(from, length));
    Node.staged = answer.bytes;
    const error = answer.error;
    const code: u64 = error === null ? 0 : error.code;
    return (code << 32) | Node.staged.length;
  }

  static copy(from: usize, length: u32): Uint8Array {
    const bytes = new Uint8Array(length);
    memory.copy(bytes.dataStart, from, length);
    return bytes;
  }
}

/** Answers the capabilities from now on: "wasm_start" and so on, with their requests. */
export function host(answer: (capability: string, request: Uint8Array) => Answer): void {
  Node.answerer = answer;
}

/** Returns a message as the answer of a capability. */
export function answer<M>(message: M): Answer {
  return new Answer(encode<M>(message));
}

/** Returns an error as the answer of a capability. */
export function refuse(error: Error): Answer {
  const answer = new Answer(encode<Error>(error));
  answer.error = error;
  return answer;
}

/** Calls an exported operation as the node does, with bytes in between. */
export function run<Q, R>(operation: (length: u32) => u32, request: Q, response: R): Error | null {
  Node.input = encode<Q>(request);
  Node.output = null;
  const code = operation(Node.input.length);
  const output = Node.output;
  assert(output !== null, "the operation has no answer: that is a fault");
  if (code == 0) return decode<R>(output!, response);
  const error = new Error();
  assert(decode<Error>(output!, error) === null && error.code == code, "the answer is no error: that is a fault");
  return error;
}

/** Returns the lines that were logged so far. */
export function logged(): string[] {
  return Node.lines;
}

/** Returns what was written to the task's standard output and standard error so far. */
export function written(): Uint8Array {
  const bytes = new Uint8Array(Node.written.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Node.written[i];
  return bytes;
}

/** Ends the test, unless two texts are the same. */
export function same(got: string, want: string): void {
  assert(got == want, 'got "' + got + '", want "' + want + '"');
}

/** Ends the test, unless there is such an error. */
export function refused(error: Error | null, code: ErrorCode, message: string): void {
  assert(error !== null, "got no error, want " + message);
  assert(error!.code == code, "got the code " + (<i32>error!.code).toString() + ", want " + (<i32>code).toString());
  same(error!.message, message);
}

/** Ends the test when there is an error. */
export function accepted(error: Error | null): void {
  assert(error === null, "got the error " + (error === null ? "" : error.message));
}
