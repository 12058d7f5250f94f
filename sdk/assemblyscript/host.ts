/** The calling convention, and the capabilities whose arguments are no messages. */

import { Error, ErrorCode, LogField, LogFields, LogLevel } from "./generated";
import { decode, encode, utf8 } from "./wire";

@external("wasmnode:abi/v1", "input")
declare function import_abi_input(to: usize): void;
@external("wasmnode:abi/v1", "output")
declare function import_abi_output(from: usize, length: u32): void;
@external("wasmnode:abi/v1", "result")
declare function import_abi_result(to: usize): void;
@external("wasmnode:log/v1", "write")
declare function import_log_write(level: u32, line: usize, length: u32, fields: usize, fieldsLength: u32): void;
@external("wasmnode:task/v1", "refresh")
declare function import_task_refresh(): void;
@external("wasmnode:task/v1", "output")
declare function import_task_output(stream: u32, from: usize, length: u32): u64;
@external("wasmnode:task/v1", "mark")
declare function import_task_mark(stream: u32, from: usize, length: u32): u64;
@external("wasmnode:stream/v1", "read")
declare function import_stream_read(stream: u32, to: usize, length: u32): u64;
@external("wasmnode:stream/v1", "write")
declare function import_stream_write(stream: u32, from: usize, length: u32): u64;
@external("wasmnode:stream/v1", "shutdown")
declare function import_stream_shutdown(stream: u32): u64;
@external("wasmnode:stream/v1", "close")
declare function import_stream_close(stream: u32): u64;
@external("wasmnode:stream/v1", "blocking")
declare function import_stream_blocking(stream: u32, on: u32): u64;

/**
 * Returns an error. The message is one line for a person: what went wrong, and what to do;
 * recoverable says that trying the same again can help.
 */
export function fail(code: ErrorCode, message: string, recoverable: bool = false): Error {
  const error = new Error();
  error.code = code;
  error.message = message;
  error.recoverable = recoverable;
  return error;
}

/** Does an operation: what the exported functions are made of. */
export function operation<Q, R>(length: u32, f: (request: Q, response: R) => Error | null): u32 {
  const bytes = new Uint8Array(length);
  if (length > 0) import_abi_input(bytes.dataStart);
  const request = instantiate<Q>();
  const response = instantiate<R>();
  let error = decode<Q>(bytes, request);
  if (error === null) error = f(request, response);
  if (error === null) {
    output(encode<R>(response));
    return 0;
  }
  if (error.code == ErrorCode.UNSPECIFIED) error.code = ErrorCode.UNKNOWN;
  output(encode<Error>(error));
  return error.code;
}

function output(answer: Uint8Array): void {
  import_abi_output(answer.dataStart, answer.length);
}

/** Fetches what a capability answered into a message that is new. */
export function answered<R>(status: u64, response: R): Error | null {
  const answer = fetch(status);
  return status >> 32 == 0 ? decode<R>(answer, response) : refused(status, answer);
}

/** The same of one that answers nothing. */
export function done(status: u64): Error | null {
  const answer = fetch(status);
  return status >> 32 == 0 ? null : refused(status, answer);
}

function fetch(status: u64): Uint8Array {
  const answer = new Uint8Array(<i32>status);
  if (answer.length > 0) import_abi_result(answer.dataStart);
  return answer;
}

function refused(status: u64, answer: Uint8Array): Error {
  let error = new Error();
  if (decode<Error>(answer, error) !== null) error = new Error();
  error.code = <ErrorCode>(<i32>(status >> 32));
  return error;
}

/**
 * Takes the place of AssemblyScript's own abort, which a node does not know: a line in the
 * node's log, before the instance ends.
 */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const why = message === null ? "no message" : message;
  const where = file === null ? "" : " in " + file + "(" + line.toString() + ":" + column.toString() + ")";
  log(LogLevel.ERROR, "abort: " + why + where);
  unreachable();
}

/** Writes a line into the node's log, with fields. */
export function log(level: LogLevel, line: string, fields: LogField[] = []): void {
  const message = new LogFields();
  message.fields = fields;
  const text = utf8(line);
  const bytes = encode<LogFields>(message);
  import_log_write(level, text.dataStart, text.length, bytes.dataStart, bytes.length);
}

/** Returns a field of a line in the log. */
export function field(key: string, value: string): LogField {
  const made = new LogField();
  made.key = key;
  made.value = value;
  return made;
}

/** Asks the node to poll the fingerprint soon. */
export function task_refresh(): void {
  import_task_refresh();
}

/**
 * Writes to the log files of the task that the call is about: stream 1 is standard output, 2
 * standard error.
 */
export function task_output(stream: u32, bytes: Uint8Array): Error | null {
  return done(import_task_output(stream, bytes.dataStart, bytes.length));
}

/** Remembers up to 256 bytes with what the stream of the task's output has so far. */
export function task_mark(stream: u32, mark: Uint8Array): Error | null {
  return done(import_task_mark(stream, mark.dataStart, mark.length));
}

/** How many bytes a stream has taken or given, or why none. */
export class Moved {
  constructor(
    public count: i32,
    public error: Error | null,
  ) {}
}

/** On success the lower half of a status counts bytes. */
function moved(status: u64): Moved {
  return status >> 32 == 0 ? new Moved(<i32>status, null) : new Moved(0, done(status));
}

/**
 * Reads at least one byte; a count of 0 is the end of the stream. After
 * stream_blocking(stream, false) it fails with UNAVAILABLE instead of waiting.
 */
export function stream_read(stream: u32, to: Uint8Array): Moved {
  return moved(import_stream_read(stream, to.dataStart, to.length));
}

/** Writes at least one byte. */
export function stream_write(stream: u32, bytes: Uint8Array): Moved {
  return moved(import_stream_write(stream, bytes.dataStart, bytes.length));
}

/** Says that nothing more is written; reading goes on. */
export function stream_shutdown(stream: u32): Error | null {
  return done(import_stream_shutdown(stream));
}

/** Closes a stream. */
export function stream_close(stream: u32): Error | null {
  return done(import_stream_close(stream));
}

/** Says whether reads and writes wait. */
export function stream_blocking(stream: u32, on: bool): Error | null {
  return done(import_stream_blocking(stream, on ? 1 : 0));
}
