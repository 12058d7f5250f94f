/**
 * The driver plugin "@NAME@": a task is a script that the shell of the node runs. The node owns
 * the process; the driver only decides what to run.
 *
 * Nothing may live in memory: the node throws an instance away whenever it likes. What a task
 * needs goes into its handle.
 */

import { SCHEMA } from "./build/@SCHEMA@";
import * as wasmnode from "./sdk";
import {
  DriverCapabilities,
  DriverConfigureRequest,
  DriverConfigureResponse,
  DriverDescribeRequest,
  DriverDescribeResponse,
  DriverFingerprintRequest,
  DriverFingerprintResponse,
  DriverRecoverTaskRequest,
  DriverRecoverTaskResponse,
  DriverStartTaskRequest,
  DriverStartTaskResponse,
  Error,
  ErrorCode,
  FilesystemIsolation,
  HealthState,
  Json,
  ProcessIsolation,
  ProcessStartRequest,
  ProcessStartResponse,
  TaskHandle,
  fail,
  process_start,
} from "./sdk";

const VERSION = "0.1.0";
const SHELL = "/bin/sh";

/** Grows when newer versions of the driver write other handles. */
const HANDLE_VERSION: u32 = 1;

// What is not exported the node does with the process that the handle names: it waits for it,
// stops, signals, inspects, measures and destroys it, and runs commands beside it. There is an
// operation for each of these, for tasks that need something else.

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

export function driver_recover_task(length: u32): u32 {
  return wasmnode.driver_recover_task(length, recoverTask);
}

/** Says who the driver is, and what a task's config block may hold. */
function describe(_: DriverDescribeRequest, response: DriverDescribeResponse): Error | null {
  const capabilities = new DriverCapabilities();
  capabilities.send_signals = true;
  capabilities.exec = true;
  capabilities.filesystem_isolation = FilesystemIsolation.NONE;
  response.name = "@NAME@";
  response.version = VERSION;
  response.capabilities = capabilities;
  response.task_config_schema = SCHEMA;
  return null;
}

/** Takes the plugin's own configuration; this one has none. */
function configure(_: DriverConfigureRequest, _response: DriverConfigureResponse): Error | null {
  return null;
}

/** Says whether the driver can work here. */
function fingerprint(_: DriverFingerprintRequest, response: DriverFingerprintResponse): Error | null {
  response.health = HealthState.HEALTHY;
  response.description = "Healthy";
  return null;
}

/** Starts a task. Its config was checked against the schema, and has its defaults. */
function startTask(request: DriverStartTaskRequest, response: DriverStartTaskResponse): Error | null {
  const task = request.task;
  if (!task) return fail(ErrorCode.INVALID_ARGUMENT, "there is no task");
  const config = Json.parse(task.driver_config);
  if (!config) return fail(ErrorCode.INVALID_ARGUMENT, "config: it is no JSON");
  const script = config.get("script").text();
  if (script == "") return fail(ErrorCode.INVALID_ARGUMENT, "config: script is missing");

  const process = new ProcessStartRequest();
  process.command = SHELL;
  process.args = ["-c", script, task.name].concat(config.get("args").texts());
  process.env = task.env;
  process.user = task.user;
  process.isolation = ProcessIsolation.NONE;
  const started = new ProcessStartResponse();
  const error = process_start(process, started);
  if (error) return error;

  const handle = new TaskHandle();
  handle.version = HANDLE_VERSION;
  handle.workload_id = started.workload_id;
  response.handle = handle;
  return null;
}

/**
 * Takes a task over after a restart of the agent, or an upgrade of the plugin. The node has made
 * sure that its process is there.
 */
function recoverTask(request: DriverRecoverTaskRequest, _: DriverRecoverTaskResponse): Error | null {
  const handle = request.handle;
  if (!handle) return fail(ErrorCode.INVALID_ARGUMENT, "there is no handle");
  if (handle.version > HANDLE_VERSION) {
    return fail(ErrorCode.FAILED_PRECONDITION, "a newer version of the driver started this task");
  }
  return null; // the handle stays as it is
}
