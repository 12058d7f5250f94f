/* Tests of the example device plugin without a node; its files are those of a directory that the
 * test is given, which has "a" with three bytes and "b" with none. */
#define _XOPEN_SOURCE 700 /* lstat */
#include <assert.h>
#include <stdio.h>

#include "../../../guest-examples/devices/c-example/main.c"
#include "../wasmnode_test.h"

static bool is(wn_string text, const char *want) { return wn_equal(text, wn_text(want)); }

static const wn_Error *configure(const char *config) {
  wn_DeviceConfigureResponse response = {0};
  return WN_TEST(device_configure, DeviceConfigure, {.config = wn_text(config)}, &response);
}

static const wn_Error *reserve(const char *id, wn_DeviceReserveResponse *response) {
  const wn_string ids[] = {wn_text(id)};
  wn_DeviceReserveRequest request = {.group = &group, .device_ids = ids, .device_ids_count = 1};
  *response = (wn_DeviceReserveResponse){0};
  return wn_test_run(wn_export_device_reserve, &wn_DeviceReserveRequest_message, &request, &wn_DeviceReserveResponse_message, response);
}

int main(int argc, char **argv) {
  assert(argc == 2);
  static char config[8192];
  snprintf(config, sizeof config, "{\"dir\": \"%s\"}", argv[1]);
  assert(!configure(config));

  wn_DeviceFingerprintResponse found = {0};
  assert(!WN_TEST(device_fingerprint, DeviceFingerprint, {0}, &found));
  assert(found.groups_count == 1 && found.groups->devices_count == 2);
  assert(is(found.groups->devices[0].id, "a") && found.groups->devices[0].healthy);
  assert(is(found.groups->devices[1].id, "b") && !found.groups->devices[1].healthy);
  wn_DeviceStatsResponse measured = {0};
  assert(!WN_TEST(device_stats, DeviceStats, {0}, &measured));
  assert(measured.groups->devices[0].value->summary->int_value == 3);

  wn_DeviceReserveResponse reserved;
  assert(!reserve("a", &reserved) && is(reserved.container_edits->env[0], "EXAMPLE_DEVICES=a"));
  assert(is(reserved.container_edits->mounts[0].container_path, "/devices/a"));
  assert(is(reserve("c", &reserved)->message, "device c is gone"));

  /* A directory of the longest name is kept whole, and one that is longer is refused. */
  for (int longer = 0; longer < 2; longer++) {
    snprintf(config, sizeof config, "{\"dir\": \"/%0*d\"}", 4094 + longer, 0);
    const wn_Error *error = configure(config);
    assert(longer ? error->code == WN_ERROR_CODE_INVALID_ARGUMENT : !error && strlen(directory) == 4095);
  }
  assert(WN_TEST(device_fingerprint, DeviceFingerprint, {0}, &found)->code == WN_ERROR_CODE_UNAVAILABLE);
  assert(is(configure("{}")->message, "config: dir is missing"));
  return 0;
}
