#include "main.c"

#include <assert.h>

#include "sdk/wasmnode_test.h"

static bool is(wn_string text, const char *want) { return wn_equal(text, wn_text(want)); }

static wn_ProcessStartRequest process;

// host takes the node's place.
static wn_test_answer host(const char *capability, wn_string request) {
  assert(!strcmp(capability, "process_start"));
  process = (wn_ProcessStartRequest){0};
  assert(!wn_decode(&wn_ProcessStartRequest_message, wn_test_copy(request), &process));
  wn_ProcessStartResponse response = {wn_text("workload")};
  return wn_test_answers(&wn_ProcessStartResponse_message, &response);
}

static wn_test_answer refusing(const char *capability, wn_string request) {
  (void)capability, (void)request;
  return (wn_test_answer){.error = wn_fail(WN_ERROR_CODE_PERMISSION_DENIED, "not granted")};
}

static const wn_Error *start(const char *config, wn_DriverStartTaskResponse *response) {
  const wn_TaskConfig task = {.name = wn_text("task"), .driver_config = wn_text(config)};
  *response = (wn_DriverStartTaskResponse){0};
  return WN_TEST(driver_start_task, DriverStartTask, {.task = &task}, response);
}

static const wn_Error *recover(uint32_t version) {
  const wn_TaskHandle handle = {.version = version, .workload_id = wn_text("workload")};
  wn_DriverRecoverTaskResponse response = {0};
  return WN_TEST(driver_recover_task, DriverRecoverTask, {.handle = &handle}, &response);
}

int main(void) {
  // A task is its script.
  wn_DriverStartTaskResponse response;
  wn_test_host = host;
  assert(!start("{\"script\": \"echo $1\", \"args\": [\"hi\"]}", &response));
  assert(response.handle->version == HANDLE_VERSION && is(response.handle->workload_id, "workload"));
  assert(is(process.command, SHELL) && process.args_count == 4);
  assert(is(process.args[0], "-c") && is(process.args[1], "echo $1") && is(process.args[2], "task") && is(process.args[3], "hi"));

  // What the node refuses is the start's error.
  wn_test_host = refusing;
  assert(start("{\"script\": \"true\"}", &response)->code == WN_ERROR_CODE_PERMISSION_DENIED);
  assert(is(start("{}", &response)->message, "config: script is missing"));

  // A handle of a newer version is refused.
  assert(!recover(HANDLE_VERSION));
  assert(recover(HANDLE_VERSION + 1)->code == WN_ERROR_CODE_FAILED_PRECONDITION);
  return 0;
}
