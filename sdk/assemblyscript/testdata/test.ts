/** Tests of the SDK without a node. */

import * as wasmnode from "..";
import {
  ContainerEdits,
  DeviceReserveRequest,
  DeviceReserveResponse,
  DriverConfigureRequest,
  DriverConfigureResponse,
  Error,
  ErrorCode,
  Json,
  LogLevel,
  TaskEvent,
  fail,
  field,
  fromUtf8,
  log,
  stream_read,
  stream_write,
  task_event,
  task_output,
  utf8,
} from "..";
import { Answer, accepted, host, logged, refuse, refused, run, same, written } from "../test";

function parse(text: string): Json {
  const value = Json.parse(utf8(text));
  assert(value !== null, "no JSON: " + text);
  return value!;
}

export function test_values_are_read_and_what_is_not_there_is_empty(): void {
  const v = parse(' {"a": [1, -2.5e3, true, null], "b": "x\\n\\u00fc\\ud83d\\ude00\\ud800\\u0041\\uDC00é", "a": ["last", 1]} ');
  same(v.get("a").texts().join(","), "last,");
  same(v.get("b").text(), "x\nü😀\ufffdA\ufffdé");
  same(v.get("c").get("d").text(), "");
  same(v.names.join(","), "a,b,a");
  assert(v.get("a").items().length == 2 && v.items().length == 0);
  assert(parse("true").bool() && !parse("false").bool() && !parse("1").bool() && !parse('"true"').bool());
  assert(parse("-2.5e3").float() == -2500 && parse("0.1").float() == 0.1 && parse('"1"').float() == 0);
}

export function test_whole_numbers_are_exact_or_0(): void {
  assert(parse("-9223372036854775808").int() == i64.MIN_VALUE);
  assert(parse("9223372036854775807").int() == i64.MAX_VALUE);
  assert(parse("-12").int() == -12 && parse("0").int() == 0 && parse("-0").int() == 0);
  const none = ["9223372036854775808", "-9223372036854775809", "99999999999999999999", "1.5", "1e3", '"1"', "null"];
  for (let i = 0; i < none.length; i++) assert(parse(none[i]).int() == 0, none[i]);
}

export function test_what_is_no_json_is_refused(): void {
  const texts = [
    "", " ", "{", "[1", "[1,]", '{"a"}', '{"a":}', "{a:1}", '"', '"\\', '"\\u12"', '"\\x"', '"\n"', "01", "-", "1.",
    "1e", "tru", "nulls", "1 2", "[}", '"a', '"\\"', "[,1]", '{"a":1,}', '"\\ud83d\\u"', '"\\u00g0"',
  ];
  for (let i = 0; i < texts.length; i++) assert(Json.parse(utf8(texts[i])) === null, texts[i]);
  assert(Json.parse(utf8("[".repeat(65) + "]".repeat(65))) !== null);
  assert(Json.parse(utf8("[".repeat(66) + "]".repeat(66))) === null);
  assert(Json.parse(utf8("[".repeat(1 << 20))) === null);
}

export function test_text_that_is_not_utf_8_is_replaced(): void {
  same(fromUtf8(utf8("aü語😀")), "aü語😀");
  const bad: StaticArray<u8> = [0x61, 0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf4, 0x90, 0x80, 0x80, 0xe8, 0xaa];
  const bytes = new Uint8Array(bad.length);
  for (let i = 0; i < bad.length; i++) bytes[i] = bad[i];
  same(fromUtf8(bytes), "a" + "\ufffd".repeat(12));
  same(fromUtf8(utf8(String.fromCharCode(0xd800))), "\ufffd");
}

export function test_a_capability_that_nobody_answers_says_so(): void {
  refused(task_event(new TaskEvent()), ErrorCode.UNIMPLEMENTED, "nothing answers task_event");
}

export function test_bytes_move_through_streams(): void {
  const three = new Uint8Array(3);
  host((_capability: string, _request: Uint8Array): Answer => refuse(fail(ErrorCode.UNAVAILABLE, "later", true)));
  const moved = stream_write(7, three);
  refused(moved.error, ErrorCode.UNAVAILABLE, "later");
  assert(moved.count == 0 && moved.error!.recoverable);
  host((_capability: string, _request: Uint8Array): Answer => new Answer(utf8("hello")));
  assert(stream_read(7, three).count == 3 && stream_write(7, three).count == 3);
  same(fromUtf8(three), "hel");
}

export function test_what_is_logged_and_written_can_be_read(): void {
  log(LogLevel.WARN, "line", [field("key", "value")]);
  accepted(task_output(1, utf8("ab")));
  same(logged().join("\n"), "line");
  same(fromUtf8(written()), "ab");
}

function refuseAll(length: u32): u32 {
  return wasmnode.driver_configure(length, (_request: DriverConfigureRequest, _response: DriverConfigureResponse): Error | null => new Error());
}

export function test_an_error_has_a_code(): void {
  const error = run<DriverConfigureRequest, DriverConfigureResponse>(refuseAll, new DriverConfigureRequest(), new DriverConfigureResponse());
  refused(error, ErrorCode.UNKNOWN, "");
}

function reserve(length: u32): u32 {
  return wasmnode.device_reserve(length, (request: DeviceReserveRequest, response: DeviceReserveResponse): Error | null => {
    const edits = new ContainerEdits();
    edits.env.push("DEVICE=" + request.device_ids.join(","));
    response.container_edits = edits;
    return null;
  });
}

export function test_a_device_plugin_has_operations_too(): void {
  const request = new DeviceReserveRequest();
  request.device_ids = ["a", "b"];
  const response = new DeviceReserveResponse();
  accepted(run<DeviceReserveRequest, DeviceReserveResponse>(reserve, request, response));
  same(response.container_edits!.env.join(" "), "DEVICE=a,b");
}
