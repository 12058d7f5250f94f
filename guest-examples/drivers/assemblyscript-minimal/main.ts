/**
 * The driver plugin "assemblyscript_minimal": runs the WASI program that its config names.
 * AssemblyScript with the SDK and nothing else.
 */

import * as wasmnode from "../../../sdk/assemblyscript";
import {
  DriverConfigureRequest,
  DriverConfigureResponse,
  DriverDescribeRequest,
  DriverDescribeResponse,
  DriverFingerprintRequest,
  DriverFingerprintResponse,
  DriverStartTaskRequest,
  DriverStartTaskResponse,
  Error,
  ErrorCode,
  HealthState,
  Json,
  TaskHandle,
  WasmStartRequest,
  WasmStartResponse,
  fail,
  wasm_start,
} from "../../../sdk/assemblyscript";

export function driver_describe(length: u32): u32 {
  return wasmnode.driver_describe(length, describe);
}

export function driver_configure(length: u32): u32 {
  return wasmnode.driver_configure(length, configure);
}

export function driver_fingerprint(length: u32): u32 {
  return wasmnode.driver_fingerprint(length, fingerprint);
}

export function driver_start_task(length: u32): u32 {
  return wasmnode.driver_start_task(length, startTask);
}

const TASK_SCHEMA = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["module"],
  "properties": {
    "module": {"type": "string", "minLength": 1, "description": "The WASI program to run."},
    "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments."}
  }
}`;

function describe(_: DriverDescribeRequest, response: DriverDescribeResponse): Error | null {
  response.name = "assemblyscript_minimal";
  response.version = "0.1.0";
  response.task_config_schema = TASK_SCHEMA;
  return null;
}

function configure(_: DriverConfigureRequest, _response: DriverConfigureResponse): Error | null {
  return null;
}

function fingerprint(_: DriverFingerprintRequest, response: DriverFingerprintResponse): Error | null {
  response.health = HealthState.HEALTHY;
  response.description = "Healthy";
  return null;
}

function startTask(request: DriverStartTaskRequest, response: DriverStartTaskResponse): Error | null {
  const task = request.task;
  if (!task) return fail(ErrorCode.INVALID_ARGUMENT, "there is no task");
  const config = Json.parse(task.driver_config);
  if (!config) return fail(ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");
  const program = new WasmStartRequest();
  program.module = config.get("module").text();
  if (program.module == "") return fail(ErrorCode.INVALID_ARGUMENT, "config: module is missing");
  program.args = config.get("args").texts();
  program.env = task.env;
  const started = new WasmStartResponse();
  const error = wasm_start(program, started);
  if (error) return error;
  const handle = new TaskHandle();
  handle.version = 1;
  handle.workload_id = started.workload_id;
  response.handle = handle;
  return null;
}
