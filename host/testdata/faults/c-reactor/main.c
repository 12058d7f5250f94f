// A driver with the C library whose assertion fails in its fingerprint, below a function of its own.

#include <assert.h>
#include <stdio.h>

#include "../../../../sdk/c/wasmnode.h"

WN_DRIVER_DESCRIBE(request, response) {
  response->name = wn_text("faults_c_reactor");
  response->version = wn_text("0.1.0");
  return NULL;
}

WN_DRIVER_CONFIGURE(request, response) { return NULL; }
WN_DRIVER_START_TASK(request, response) { return NULL; }

__attribute__((noinline)) static void read_the_meter(int values) {
  fprintf(stderr, "reading %d values\n", values);
  assert(values > 0);
}

WN_DRIVER_FINGERPRINT(request, response) {
  read_the_meter((int)response->health);
  return NULL;
}
