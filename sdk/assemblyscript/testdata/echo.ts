/**
 * Decodes each message that it gets and writes it again, as ../../c/testdata/echo.c does, and
 * makes messages by name, as package sdktest does in Go. echo.mjs reads and writes for it.
 */

import {
  DriverExecTaskResponse,
  ExitResult,
  KvSetRequest,
  Port,
  Resources,
  StatValue,
  TaskConfig,
  encode,
  fromUtf8,
  utf8,
} from "..";
import { Echoed } from "./echoed";
import { echoByName } from "./messages";

let taken = new Uint8Array(0);

/** Makes room for the name of a message and its bytes behind it. */
export function room(size: i32): usize {
  taken = new Uint8Array(size);
  return taken.dataStart;
}

export function answer(): usize {
  return Echoed.bytes.dataStart;
}

export function answerSize(): i32 {
  return Echoed.bytes.length;
}

/** Returns the code of the decoder. */
export function again(nameSize: i32): i32 {
  Echoed.bytes = new Uint8Array(0);
  return echoByName(fromUtf8(taken.slice(0, nameSize)), taken.slice(nameSize));
}

export function golden_task(): void {
  const task = new TaskConfig();
  task.id = "id";
  task.namespace = "default";
  task.env.set("KEY", "value");
  const resources = new Resources();
  resources.cpu_mhz = 500;
  resources.memory_bytes = 1 << 33;
  resources.cores = [0, 1, 300];
  task.resources = resources;
  const http = new Port();
  http.label = "http";
  http.host_ip = "::1";
  http.host_port = 8080;
  http.task_port = 80;
  const db = new Port();
  db.label = "db";
  task.ports = [http, db];
  task.driver_config = utf8("{}");
  Echoed.bytes = encode<TaskConfig>(task);
}

export function golden_stat(): void {
  const stat = new StatValue();
  stat.value_case = 2;
  stat.int_value = -1;
  stat.denominator_case = 5;
  stat.float_denominator = 0.5;
  stat.unit = "MiB";
  Echoed.bytes = encode<StatValue>(stat);
}

export function golden_exec(): void {
  const result = new ExitResult();
  result.exit_code = -1;
  result.signal = 9;
  result.oom_killed = true;
  const executed = new DriverExecTaskResponse();
  executed.stdout = utf8("out");
  executed.stderr = utf8("err");
  executed.result = result;
  Echoed.bytes = encode<DriverExecTaskResponse>(executed);
}

export function golden_set(): void {
  const set = new KvSetRequest();
  set.key = "k";
  set.has_version = true;
  Echoed.bytes = encode<KvSetRequest>(set);
}
