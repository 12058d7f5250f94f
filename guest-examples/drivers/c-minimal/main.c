// The driver plugin "c_minimal": runs the WASI program that its config names. C with
// the header of the SDK; without it the same driver is in abi/ABI.md.

#include "../../../sdk/c/wasmnode.h"

WN_DRIVER_DESCRIBE(request, response) {
  response->name = wn_text("c_minimal");
  response->version = wn_text("0.1.0");
  response->task_config_schema = wn_text(
      "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"module\"],\"properties\":{"
      "\"module\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The WASI program to run.\"},"
      "\"args\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Its arguments.\"}}}");
  return NULL;
}

WN_DRIVER_CONFIGURE(request, response) { return NULL; }

WN_DRIVER_FINGERPRINT(request, response) {
  response->health = WN_HEALTH_STATE_HEALTHY;
  response->description = wn_text("Healthy");
  return NULL;
}

WN_DRIVER_START_TASK(request, response) {
  const wn_TaskConfig *task = request->task;
  if (!task) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "there is no task");
  const wn_json *config = wn_json_parse(task->driver_config);
  wn_WasmStartRequest program = {.module = wn_json_string(wn_json_get(config, "module"))};
  if (!program.module.size) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "config: module is missing");
  program.args = wn_json_texts(wn_json_get(config, "args"), &program.args_count);
  program.env = task->env, program.env_count = task->env_count;

  wn_WasmStartResponse started = {0};
  WN_TRY(wn_wasm_start(&program, &started));
  wn_TaskHandle *handle = wn_alloc(sizeof *handle);
  if (!handle) return wn_no_memory();
  *handle = (wn_TaskHandle){.version = 1, .workload_id = started.workload_id};
  response->handle = handle;
  return NULL;
}
