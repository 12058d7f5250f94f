#include "main.c"

#include <assert.h>

#include "sdk/wasmnode_test.h"

static bool is(wn_string text, const char *want) { return wn_equal(text, wn_text(want)); }

static const wn_Error *configure(const char *config) {
  wn_DeviceConfigureResponse response = {0};
  return WN_TEST(device_configure, DeviceConfigure, {.config = wn_text(config)}, &response);
}

static wn_DeviceFingerprintResponse found(void) {
  wn_DeviceFingerprintResponse response = {0};
  assert(!WN_TEST(device_fingerprint, DeviceFingerprint, {0}, &response));
  return response;
}

static const wn_Error *reserve(const wn_DeviceGroupId *of, const char *id, wn_DeviceReserveResponse *response) {
  const wn_string ids[] = {wn_text("one"), wn_text(id)};
  wn_DeviceReserveRequest request = {.group = of, .device_ids = ids, .device_ids_count = 2};
  *response = (wn_DeviceReserveResponse){0};
  return wn_test_run(wn_export_device_reserve, &wn_DeviceReserveRequest_message, &request, &wn_DeviceReserveResponse_message, response);
}

int main(void) {
  // The devices are those of the configuration.
  assert(!configure("") && found().groups_count == 0);
  assert(configure("{")->code == WN_ERROR_CODE_INVALID_ARGUMENT);
  assert(!configure("{\"devices\": [\"one\", \"two\"]}"));
  assert(found().groups_count == 1 && found().groups->devices_count == 2 && is(found().groups->devices[1].id, "two"));

  // A task is told its devices.
  wn_DeviceReserveResponse response;
  assert(!reserve(&group, "two", &response) && is(response.container_edits->env[0], "DEVICE_IDS=one,two"));
  assert(is(reserve(&group, "three", &response)->message, "a device is gone: three"));
  const wn_DeviceGroupId other = {.vendor = wn_text("another")};
  assert(reserve(&other, "two", &response)->code == WN_ERROR_CODE_NOT_FOUND);
  return 0;
}
