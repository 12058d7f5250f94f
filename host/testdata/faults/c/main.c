// A driver that traps: in its fingerprint, below two functions of its own.

#include "../../../../sdk/c/wasmnode.h"

WN_DRIVER_DESCRIBE(request, response) {
  response->name = wn_text("faults_c");
  response->version = wn_text("0.1.0");
  return NULL;
}

WN_DRIVER_CONFIGURE(request, response) { return NULL; }
WN_DRIVER_START_TASK(request, response) { return NULL; }

__attribute__((noinline)) static void open_the_door(int n) {
  wn_log(WN_LOG_LEVEL_INFO, "opening the door");
  if (n != 7) __builtin_trap();
}

WN_DRIVER_FINGERPRINT(request, response) {
  open_the_door((int)response->health);
  return NULL;
}
