// The driver plugin "@NAME@": a task is a script that the shell of the node runs. The node owns
// the process; the driver only decides what to run.
//
// Nothing may live in memory: the node throws an instance away whenever it likes. What a task
// needs goes into its handle.

#include "sdk/wasmnode.h"

#define SHELL "/bin/sh"

// Grows when newer versions of the driver write other handles.
#define HANDLE_VERSION 1

static const char task_schema[] =
#include "task_schema.h"
    ;

// What is not here the node does with the process that the handle names: it waits for it, stops,
// signals, inspects, measures and destroys it, and runs commands beside it. There is an
// operation for each of these, for tasks that need something else.

// Says who the driver is, and what a task's config block may hold.
WN_DRIVER_DESCRIBE(request, response) {
  static const wn_DriverCapabilities capabilities = {
      .send_signals = true, .exec = true, .filesystem_isolation = WN_FILESYSTEM_ISOLATION_NONE};
  response->name = wn_text("@NAME@");
  response->version = wn_text("0.1.0");
  response->capabilities = &capabilities;
  response->task_config_schema = wn_text(task_schema);
  return NULL;
}

// Takes the plugin's own configuration; this one has none.
WN_DRIVER_CONFIGURE(request, response) { return NULL; }

// Says whether the driver can work here.
WN_DRIVER_FINGERPRINT(request, response) {
  response->health = WN_HEALTH_STATE_HEALTHY;
  response->description = wn_text("Healthy");
  return NULL;
}

// Starts a task. Its config was checked against the schema, and has its defaults.
WN_DRIVER_START_TASK(request, response) {
  const wn_TaskConfig *task = request->task;
  if (!task) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "there is no task");
  const wn_json *config = wn_json_parse(task->driver_config);
  wn_string script = wn_json_string(wn_json_get(config, "script"));
  if (!script.size) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "config: script is missing");

  uint32_t count;
  const wn_string *more = wn_json_texts(wn_json_get(config, "args"), &count);
  wn_string *args = wn_alloc((count + 3) * sizeof *args);
  wn_TaskHandle *handle = wn_alloc(sizeof *handle);
  if (!args || !handle) return wn_no_memory();
  args[0] = wn_text("-c"), args[1] = script, args[2] = task->name;
  for (uint32_t i = 0; i < count; i++) args[3 + i] = more[i];

  wn_ProcessStartRequest process = {
      .command = wn_text(SHELL), .args = args, .args_count = count + 3,
      .env = task->env, .env_count = task->env_count, .user = task->user,
      .isolation = WN_PROCESS_ISOLATION_NONE};
  wn_ProcessStartResponse started = {0};
  WN_TRY(wn_process_start(&process, &started));
  *handle = (wn_TaskHandle){.version = HANDLE_VERSION, .workload_id = started.workload_id};
  response->handle = handle;
  return NULL;
}

// Takes a task over after a restart of the agent, or an upgrade of the plugin. The node has made
// sure that its process is there. Without a handle in the answer it stays as it is.
WN_DRIVER_RECOVER_TASK(request, response) {
  if (!request->handle) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "there is no handle");
  if (request->handle->version > HANDLE_VERSION)
    return wn_fail(WN_ERROR_CODE_FAILED_PRECONDITION, "a newer version of the driver started this task");
  return NULL;
}
