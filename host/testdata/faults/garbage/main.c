// A driver whose handle of a task is no message.

#include "../../../../sdk/c/wasmnode.h"

WN_DRIVER_DESCRIBE(request, response) {
  response->name = wn_text("garbage");
  response->version = wn_text("0.1.0");
  return NULL;
}

WN_DRIVER_CONFIGURE(request, response) { return NULL; }
WN_DRIVER_FINGERPRINT(request, response) { return NULL; }

WN_EXPORT("driver_start_task") uint32_t start_task(WN_UNUSED uint32_t length) {
  wn_import_abi_output("\xff\xff\xff", 3);
  return 0;
}
