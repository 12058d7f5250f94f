/** Tests of the driver, without a node. */

import {
  DriverStartTaskRequest,
  DriverStartTaskResponse,
  Error,
  ErrorCode,
  TaskConfig,
  WasmStartRequest,
  WasmStartResponse,
  decode,
  fail,
  utf8,
} from "../../../sdk/assemblyscript";
import { Answer, accepted, answer, host, refuse, refused, run, same } from "../../../sdk/assemblyscript/test";
import { driver_start_task } from "./main";

function start(config: string, response: DriverStartTaskResponse): Error | null {
  const task = new TaskConfig();
  task.driver_config = utf8(config);
  task.env.set("A", "1");
  const request = new DriverStartTaskRequest();
  request.task = task;
  return run<DriverStartTaskRequest, DriverStartTaskResponse>(driver_start_task, request, response);
}

export function test_a_task_is_the_program_that_its_config_names(): void {
  host((capability: string, request: Uint8Array): Answer => {
    same(capability, "wasm_start");
    const program = new WasmStartRequest();
    accepted(decode<WasmStartRequest>(request, program));
    same(program.module, "local/app.wasm");
    same(program.args.join(" "), "-v");
    same(program.env.get("A"), "1");
    const started = new WasmStartResponse();
    started.workload_id = "workload";
    return answer<WasmStartResponse>(started);
  });
  const response = new DriverStartTaskResponse();
  accepted(start('{"module": "local/app.wasm", "args": ["-v"]}', response));
  const handle = response.handle!;
  assert(handle.version == 1);
  same(handle.workload_id, "workload");
}

export function test_what_the_node_refuses_is_the_starts_error(): void {
  host((_capability: string, _request: Uint8Array): Answer => refuse(fail(ErrorCode.NOT_FOUND, "no such file", true)));
  const error = start('{"module": "gone"}', new DriverStartTaskResponse());
  refused(error, ErrorCode.NOT_FOUND, "no such file");
  assert(error!.recoverable);
}

export function test_a_config_without_a_program_is_refused(): void {
  refused(start("{}", new DriverStartTaskResponse()), ErrorCode.INVALID_ARGUMENT, "config: module is missing");
  refused(start("{", new DriverStartTaskResponse()), ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");
}
