/* wasmnode_test.h: a node for tests of a plugin on the machine that it is written on.
 *
 *   #include "main.c"
 *   #include "wasmnode_test.h"
 *
 *   int main(void) {
 *     wn_DriverDescribeResponse response = {0};
 *     const wn_Error *error = WN_TEST(driver_describe, DriverDescribe, {0}, &response);
 *     assert(!error && wn_equal(response.name, wn_text("mine")));
 *   }
 *
 *   cc -std=c11 -fsanitize=address,undefined -o test test.c && ./test
 *
 * A capability is answered by wn_test_host, which a test may set; without it, it answers
 * UNIMPLEMENTED. What a test gets lasts until its program ends. */
#ifndef WASMNODE_TEST_H
#define WASMNODE_TEST_H

#include <string.h>

#include "wasmnode.h"

/* wn_test_answer is what the node answers a capability. */
typedef struct wn_test_answer {
  uint32_t code; /* 0, or that of an error */
  wn_string answer;
  const wn_Error *error;
} wn_test_answer;

/* wn_test_host answers a capability, such as "wasm_start", whose request is encoded. */
static wn_test_answer (*wn_test_host)(const char *capability, wn_string request) WN_UNUSED;

/* What the plugin wrote into the node's log and to the task, cut to what there is room for. */
static char wn_test_log[64 << 10] WN_UNUSED, wn_test_output[64 << 10] WN_UNUSED;

static struct {
  wn_string request, answer, staged;
  bool answered;
} wn_test_call;

static struct wn_test_kept {
  struct wn_test_kept *next;
  char bytes[];
} *wn_test_kept WN_UNUSED;

/* wn_test_copy keeps bytes until the program ends. */
WN_FUNCTION wn_string wn_test_copy(wn_string bytes) {
  struct wn_test_kept *copy = malloc(sizeof *copy + bytes.size);
  if (!copy) abort();
  copy->next = wn_test_kept;
  wn_test_kept = copy;
  if (bytes.size) memcpy(copy->bytes, bytes.data, bytes.size);
  return (wn_string){copy->bytes, bytes.size};
}

/* wn_test_append adds to a text that has room bytes in all. */
WN_FUNCTION void wn_test_append(char *to, size_t room, wn_string bytes) {
  size_t used = strlen(to), n = bytes.size;
  if (n > room - 1 - used) n = room - 1 - used;
  if (n) memcpy(to + used, bytes.data, n);
}

/* wn_test_capability has the test answer a capability. */
WN_FUNCTION uint64_t wn_test_capability(const char *name, wn_string request) {
  wn_test_answer a = {WN_ERROR_CODE_UNIMPLEMENTED, {0}, NULL};
  if (wn_test_host) a = wn_test_host(name, request);
  if (a.error) {
    a.code = (uint32_t)a.error->code;
    if (!wn_encode(&wn_Error_message, a.error, &a.answer)) abort();
  }
  wn_test_call.staged = wn_test_copy(a.answer);
  return (uint64_t)a.code << 32 | a.answer.size;
}

/* wn_test_answers returns a message as the answer of a capability. */
WN_FUNCTION wn_test_answer wn_test_answers(const wn_message *message, const void *response) {
  wn_test_answer a = {0};
  if (!wn_encode(message, response, &a.answer)) abort();
  return a;
}

/* wn_test_run calls an operation and decodes its answer. Without exactly one answer it aborts:
 * that is a fault. */
WN_FUNCTION const wn_Error *wn_test_run(uint32_t (*operation)(uint32_t), const wn_message *request_message, const void *request,
                                        const wn_message *response_message, void *response) {
  static wn_Error error;
  wn_string encoded;
  if (!wn_encode(request_message, request, &encoded)) abort();
  wn_test_call.request = wn_test_copy(encoded);
  wn_test_call.answered = false;
  uint32_t code = operation(encoded.size);
  if (!wn_test_call.answered) abort();
  if (!code) {
    if (wn_decode(response_message, wn_test_call.answer, response)) abort();
    return NULL;
  }
  error = (wn_Error){0};
  if (wn_decode(&wn_Error_message, wn_test_call.answer, &error) || (uint32_t)error.code != code) abort();
  return &error;
}

/* WN_TEST(driver_describe, DriverDescribe, {0}, &response) calls an operation. */
#define WN_TEST(name, Message, request, response)                                                                          \
  wn_test_run(wn_export_##name, &wn_##Message##Request_message, &(wn_##Message##Request)request,                            \
              &wn_##Message##Response_message, response)

void wn_import_abi_input(void *to) { if (wn_test_call.request.size) memcpy(to, wn_test_call.request.data, wn_test_call.request.size); }
void wn_import_abi_result(void *to) { if (wn_test_call.staged.size) memcpy(to, wn_test_call.staged.data, wn_test_call.staged.size); }
void wn_import_abi_output(const void *from, uint32_t length) {
  if (wn_test_call.answered) abort();
  wn_test_call.answered = true;
  wn_test_call.answer = wn_test_copy((wn_string){from, length});
}

void wn_import_log_write(uint32_t level, const void *line, uint32_t length, const void *fields, uint32_t fields_length) {
  (void)level, (void)fields, (void)fields_length;
  wn_test_append(wn_test_log, sizeof wn_test_log, (wn_string){line, length});
  wn_test_append(wn_test_log, sizeof wn_test_log, wn_text("\n"));
}
void wn_import_task_refresh(void) { wn_test_capability("task_refresh", (wn_string){0}); }
uint64_t wn_import_task_output(uint32_t stream, const void *from, uint32_t length) {
  (void)stream;
  wn_test_append(wn_test_output, sizeof wn_test_output, (wn_string){from, length});
  return 0;
}
uint64_t wn_import_task_mark(uint32_t stream, const void *from, uint32_t length) {
  (void)stream;
  return wn_test_capability("task_mark", (wn_string){from, length});
}
uint64_t wn_import_task_marked(uint32_t stream) { (void)stream; return wn_test_capability("task_marked", (wn_string){0}); }
uint64_t wn_import_exec_open(void) { return wn_test_capability("exec_open", (wn_string){0}); }
uint64_t wn_import_http_response(uint32_t stream) { (void)stream; return wn_test_capability("http_response", (wn_string){0}); }
uint64_t wn_import_http_trailers(uint32_t stream) { (void)stream; return wn_test_capability("http_trailers", (wn_string){0}); }
uint64_t wn_import_stream_shutdown(uint32_t stream) { (void)stream; return wn_test_capability("stream_shutdown", (wn_string){0}); }
uint64_t wn_import_stream_close(uint32_t stream) { (void)stream; return wn_test_capability("stream_close", (wn_string){0}); }
uint64_t wn_import_stream_blocking(uint32_t stream, uint32_t on) { (void)stream, (void)on; return wn_test_capability("stream_blocking", (wn_string){0}); }

/* A read is answered with the bytes that there is room for; a write takes all. */
uint64_t wn_import_stream_read(uint32_t stream, void *to, uint32_t length) {
  (void)stream;
  uint64_t status = wn_test_capability("stream_read", (wn_string){0});
  wn_string bytes = wn_test_call.staged;
  if (status >> 32) return status;
  if (bytes.size > length) bytes.size = length;
  if (bytes.size) memcpy(to, bytes.data, bytes.size);
  return bytes.size;
}
uint64_t wn_import_stream_write(uint32_t stream, const void *from, uint32_t length) {
  (void)stream;
  uint64_t status = wn_test_capability("stream_write", (wn_string){from, length});
  return status >> 32 ? status : length;
}

#define WN_TEST_CAPABILITY(name) \
  uint64_t wn_import_##name(const void *from, uint32_t length) { return wn_test_capability(#name, (wn_string){from, length}); }
WN_TEST_CAPABILITY(task_event)
WN_TEST_CAPABILITY(wasm_start)
WN_TEST_CAPABILITY(process_start)
WN_TEST_CAPABILITY(process_support)
WN_TEST_CAPABILITY(process_run)
WN_TEST_CAPABILITY(stream_poll)
WN_TEST_CAPABILITY(net_dial)
WN_TEST_CAPABILITY(http_request)
WN_TEST_CAPABILITY(kv_get)
WN_TEST_CAPABILITY(kv_set)
WN_TEST_CAPABILITY(kv_delete)
WN_TEST_CAPABILITY(kv_list)
WN_TEST_CAPABILITY(workload_signal)
WN_TEST_CAPABILITY(workload_stop)
WN_TEST_CAPABILITY(workload_wait)
WN_TEST_CAPABILITY(workload_stats)
WN_TEST_CAPABILITY(workload_inspect)
WN_TEST_CAPABILITY(workload_exec)

#endif /* WASMNODE_TEST_H */
