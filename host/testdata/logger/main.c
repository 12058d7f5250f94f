// A plugin that logs with the header of the SDK for C.

#include "../../../sdk/c/wasmnode.h"

WN_DRIVER_DESCRIBE(request, response) {
  response->name = wn_text("logger");
  response->version = wn_text("0.1.0");
  return NULL;
}

WN_DRIVER_CONFIGURE(request, response) { return NULL; }
WN_DRIVER_START_TASK(request, response) { return NULL; }

WN_DRIVER_FINGERPRINT(request, response) {
  wn_LogField field = {wn_text("key"), wn_text("value")};
  wn_log(WN_LOG_LEVEL_WARN, "first");
  wn_log_fields(WN_LOG_LEVEL_INFO, wn_text("second"), &field, 1);
  wn_die("last");
}
