import { driver_recover_task, driver_start_task } from "./main";
import {
  DriverRecoverTaskRequest,
  DriverRecoverTaskResponse,
  DriverStartTaskRequest,
  DriverStartTaskResponse,
  Error,
  ErrorCode,
  ProcessStartRequest,
  ProcessStartResponse,
  TaskConfig,
  TaskHandle,
  decode,
  fail,
  utf8,
} from "./sdk";
import { Answer, accepted, answer, host, refuse, refused, run, same } from "./sdk/test";

function start(config: string, response: DriverStartTaskResponse): Error | null {
  const task = new TaskConfig();
  task.name = "task";
  task.driver_config = utf8(config);
  const request = new DriverStartTaskRequest();
  request.task = task;
  return run<DriverStartTaskRequest, DriverStartTaskResponse>(driver_start_task, request, response);
}

export function test_a_task_is_its_script(): void {
  host((capability: string, request: Uint8Array): Answer => {
    same(capability, "process_start");
    const process = new ProcessStartRequest();
    accepted(decode<ProcessStartRequest>(request, process));
    same(process.command, "/bin/sh");
    same(process.args.join("|"), "-c|echo $1|task|hi");
    const started = new ProcessStartResponse();
    started.workload_id = "workload";
    return answer<ProcessStartResponse>(started);
  });
  const response = new DriverStartTaskResponse();
  accepted(start('{"script": "echo $1", "args": ["hi"]}', response));
  const handle = response.handle!;
  assert(handle.version == 1);
  same(handle.workload_id, "workload");
}

export function test_what_the_node_refuses_is_the_starts_error(): void {
  host((_capability: string, _request: Uint8Array): Answer => refuse(fail(ErrorCode.PERMISSION_DENIED, "not granted")));
  refused(start('{"script": "true"}', new DriverStartTaskResponse()), ErrorCode.PERMISSION_DENIED, "not granted");
  refused(start("{}", new DriverStartTaskResponse()), ErrorCode.INVALID_ARGUMENT, "config: script is missing");
}

function recover(version: u32): Error | null {
  const request = new DriverRecoverTaskRequest();
  const handle = new TaskHandle();
  handle.version = version;
  request.handle = handle;
  return run<DriverRecoverTaskRequest, DriverRecoverTaskResponse>(driver_recover_task, request, new DriverRecoverTaskResponse());
}

export function test_a_handle_of_a_newer_version_is_refused(): void {
  accepted(recover(1));
  refused(recover(2), ErrorCode.FAILED_PRECONDITION, "a newer version of the driver started this task");
}
