/* Tests of the SDK without a node. What it prints are messages as bytes, for package
 * sdktest to compare with Go's. */
#include <stdio.h>

#include "../../../guest-examples/drivers/c-minimal/main.c"
#include "../wasmnode_test.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

#define COMMA , /* in an argument of a macro */

static bool is(wn_string text, const char *want) { return wn_equal(text, wn_text(want)); }

static const wn_json *parse(const char *text) { return wn_json_parse(wn_text(text)); }

static void test_json(void) {
  const wn_json *v = parse(" {\"a\": [1, -2.5e3, true, null], \"b\": \"x\\n\\u00fc\\ud83d\\ude00\\ud800\", \"a\": [\"last\", 1]} ");
  uint32_t count;
  const wn_string *texts = wn_json_texts(wn_json_get(v, "a"), &count);
  CHECK(count == 2 && is(texts[0], "last") && texts[1].size == 0);
  CHECK(is(wn_json_string(wn_json_get(v, "b")), "x\n\xc3\xbc\xf0\x9f\x98\x80\xef\xbf\xbd"));
  CHECK(!wn_json_get(v, "c") && !wn_json_get(NULL, "c") && wn_json_string(NULL).size == 0);
  CHECK(wn_json_bool(parse("true")) && !wn_json_bool(parse("false")) && !wn_json_bool(parse("1")));
  CHECK(wn_json_int(parse("-9223372036854775808")) == INT64_MIN && wn_json_int(parse("9223372036854775807")) == INT64_MAX);
  CHECK(wn_json_int(parse("9223372036854775808")) == 0 && wn_json_int(parse("1.5")) == 0 && wn_json_int(parse("-0")) == 0);
  const char *bad[] = {"", " ", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "\"", "\"\\", "\"\\u12\"", "\"\\x\"", "\"\n\"",
                       "01", "-", "1.", "1e", "tru", "nulls", "1 2", "[}", "\"a", "\"\\\"", NULL};
  for (int i = 0; bad[i]; i++) CHECK(!parse(bad[i]));
  char deep[2 * WN_JSON_DEPTH + 8] = {0};
  for (int i = 0; i <= WN_JSON_DEPTH; i++) deep[i] = '[', deep[WN_JSON_DEPTH + 1 + i] = ']';
  CHECK(!parse(deep + 1) && deep[0]); /* not closed as often */
  deep[2 * WN_JSON_DEPTH + 1] = 0;
  CHECK(parse(deep + 1));
}

static wn_WasmStartRequest started;

static wn_test_answer host(const char *capability, wn_string request) {
  CHECK(!strcmp(capability, "wasm_start"));
  memset(&started, 0, sizeof started);
  CHECK(wn_decode(&wn_WasmStartRequest_message, wn_test_copy(request), &started) == 0);
  if (is(started.module, "gone")) return (wn_test_answer){.error = wn_fail_with(WN_ERROR_CODE_NOT_FOUND, wn_text("no such file"), true)};
  wn_WasmStartResponse response = {wn_text("workload")};
  return wn_test_answers(&wn_WasmStartResponse_message, &response);
}

static const wn_Error *start(const char *config, wn_DriverStartTaskResponse *response) {
  const wn_StringEntry env = {wn_text("A"), wn_text("1")};
  const wn_TaskConfig task = {.driver_config = wn_text(config), .env = &env, .env_count = 1};
  *response = (wn_DriverStartTaskResponse){0};
  return WN_TEST(driver_start_task, DriverStartTask, {.task = &task}, response);
}

static void test_driver(void) {
  wn_DriverDescribeResponse description = {0};
  CHECK(!WN_TEST(driver_describe, DriverDescribe, {0}, &description) && is(description.name, "c_minimal"));
  wn_DriverStartTaskResponse response;
  const wn_Error *error = start("{\"module\": \"a\"}", &response);
  CHECK(error->code == WN_ERROR_CODE_UNIMPLEMENTED); /* nobody answers */
  wn_test_host = host;
  CHECK(!start("{\"module\": \"a\", \"args\": [\"-v\"]}", &response));
  CHECK(is(response.handle->workload_id, "workload") && response.handle->version == 1);
  CHECK(started.args_count == 1 && is(started.args[0], "-v") && started.env_count == 1 && is(started.env[0].value, "1"));
  error = start("{\"module\": \"gone\"}", &response);
  CHECK(error->code == WN_ERROR_CODE_NOT_FOUND && error->recoverable && is(error->message, "no such file"));
  error = start("{}", &response);
  CHECK(error->code == WN_ERROR_CODE_INVALID_ARGUMENT && is(error->message, "config: module is missing"));
}

WN_DEVICE_FINGERPRINT(request, response) {
  static const wn_Device devices[] = {{.id = {"a", 1}, .healthy = true}, {.id = {"b", 1}}};
  static const wn_DeviceGroupId id = {{"nomad", 5}, {"file", 4}, {"mock", 4}};
  static const wn_DeviceGroup group = {.id = &id, .devices = devices, .devices_count = 2};
  response->groups = &group, response->groups_count = 1;
  return NULL;
}

WN_DEVICE_RESERVE(request, response) {
  wn_ContainerEdits *edits = wn_alloc(sizeof *edits);
  wn_string *env = wn_alloc(sizeof *env);
  if (!edits || !env) return wn_no_memory();
  if (request->device_ids_count != 1) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "one device a task");
  *env = WN_CONCAT(wn_text("DEVICE="), request->device_ids[0]);
  edits->env = env, edits->env_count = 1;
  response->container_edits = edits;
  return NULL;
}

static void test_device(void) {
  wn_DeviceFingerprintResponse found = {0};
  CHECK(!WN_TEST(device_fingerprint, DeviceFingerprint, {0}, &found));
  CHECK(found.groups_count == 1 && is(found.groups->id->type, "file") && found.groups->devices_count == 2);
  CHECK(found.groups->devices[0].healthy && is(found.groups->devices[1].id, "b") && !found.groups->devices[1].healthy);
  const wn_string ids[] = {wn_text("a"), wn_text("b")};
  wn_DeviceReserveResponse reserved = {0};
  CHECK(!WN_TEST(device_reserve, DeviceReserve, {.device_ids = ids COMMA .device_ids_count = 1}, &reserved));
  CHECK(is(reserved.container_edits->env[0], "DEVICE=a"));
  CHECK(WN_TEST(device_reserve, DeviceReserve, {.device_ids = ids COMMA .device_ids_count = 2}, &reserved)->code == WN_ERROR_CODE_INVALID_ARGUMENT);
}

static wn_test_answer pipe_end(const char *capability, wn_string request) {
  (void)request;
  if (!strcmp(capability, "stream_read")) return (wn_test_answer){.answer = wn_text("hello")};
  return (wn_test_answer){.code = WN_ERROR_CODE_UNAVAILABLE}; /* without an answer to fetch */
}

static void test_capabilities(void) {
  char buffer[3];
  uint32_t count;
  wn_test_host = pipe_end;
  CHECK(!wn_stream_read(7, buffer, sizeof buffer, &count) && count == 3 && !memcmp(buffer, "hel", 3));
  const wn_Error *error = wn_stream_write(7, wn_text("x"), &count);
  CHECK(error->code == WN_ERROR_CODE_UNAVAILABLE && error->message.size == 0 && count == 0);
  wn_log(WN_LOG_LEVEL_WARN, "line");
  CHECK(!wn_task_output(1, WN_CONCAT(wn_text("a"), wn_text("b"))) && !strcmp(wn_test_output, "ab"));
  CHECK(!strcmp(wn_test_log, "line\n"));
}

static void test_memory(void) {
  wn_release();
  CHECK(!wn_alloc(WN_MEMORY_MAX + 1u) && !wn_alloc(WN_MEMORY_MAX));
  char *first = wn_alloc(100);
  CHECK(first && ((uintptr_t)first & 7) == 0);
  first[99] = 1;
  size_t most = wn_memory.total;
  for (int i = 0; i < 10; i++) {
    wn_release();
    CHECK(wn_alloc(100) == (void *)first && first[99] == 0 && wn_alloc(200000));
    first[99] = 1;
    if (i == 0) most = wn_memory.total;
  }
  CHECK(wn_memory.total == most); /* what was used once is used again */
}

static void print(const char *name, const wn_message *message, const void *of) {
  wn_string bytes;
  CHECK(wn_encode(message, of, &bytes));
  printf("%s ", name);
  for (uint32_t i = 0; i < bytes.size; i++) printf("%02x", (uint8_t)bytes.data[i]);
  printf("\n");
}

/* The same messages by name as in golden_test.go. */
static void print_messages(void) {
  const wn_StringEntry env[] = {{wn_text("KEY"), wn_text("value")}};
  const wn_Port ports[] = {{.label = wn_text("http"), .host_ip = wn_text("::1"), .host_port = 8080, .task_port = 80}, {.label = wn_text("db")}};
  const uint32_t cores[] = {0, 1, 300};
  const wn_Resources resources = {.cpu_mhz = 500, .memory_bytes = 1ull << 33, .cores = cores, .cores_count = 3};
  const wn_TaskConfig task = {.id = wn_text("id"), .namespace = wn_text("default"), .env = env, .env_count = 1, .resources = &resources,
                              .ports = ports, .ports_count = 2, .driver_config = wn_text("{}")};
  print("task", &wn_TaskConfig_message, &task);
  const wn_StatValue stat = {.value_case = 2, .int_value = -1, .denominator_case = 5, .float_denominator = 0.5, .unit = wn_text("MiB")};
  print("stat", &wn_StatValue_message, &stat);
  const wn_ExitResult result = {.exit_code = -1, .signal = 9, .oom_killed = true};
  const wn_DriverExecTaskResponse executed = {.stdout_ = wn_text("out"), .stderr_ = wn_text("err"), .result = &result};
  print("exec", &wn_DriverExecTaskResponse_message, &executed);
  const wn_KvSetRequest set = {.key = wn_text("k"), .has_version = true};
  print("set", &wn_KvSetRequest_message, &set);
}

int main(void) {
  test_json();
  test_driver();
  test_device();
  test_capabilities();
  test_memory();
  print_messages();
  return 0;
}
