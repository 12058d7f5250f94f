// The device plugin "c_example": the files in a directory are devices, for learning and for
// tests. An empty file is a device that is unhealthy. C with the header of the SDK, and with
// wasi-libc for the files.

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../../sdk/c/wasmnode.h"

static const wn_DeviceGroupId group = {.vendor = {"nomad", 5}, .type = {"file", 4}, .name = {"c_example", 9}};

// The directory of the configuration, which each instance gets before anything else: what
// wn_alloc returns lasts until the next operation only.
static char directory[4096];

typedef struct {
  wn_string name;
  long long size, modified;
} file;

// path_of returns the path of a file of the directory, which a NUL ends.
static wn_string path_of(wn_string name) { return WN_CONCAT(wn_text(directory), wn_text("/"), name, (wn_string){"", 1}); }

static int by_name(const void *a, const void *b) { return strcmp(((const file *)a)->name.data, ((const file *)b)->name.data); }

// list puts the regular files in the directory, which is open, into files, which has room for
// room of them, and returns how many there are.
static uint32_t list(DIR *open, file *files, uint32_t room) {
  uint32_t count = 0;
  for (struct dirent *entry; (entry = readdir(open));) {
    struct stat about;
    wn_string path = path_of(wn_text(entry->d_name));
    if (!path.size || lstat(path.data, &about) || !S_ISREG(about.st_mode)) continue;
    wn_string name = {path.data + strlen(directory) + 1, path.size - strlen(directory) - 2};
    if (count < room) files[count] = (file){name, about.st_size, about.st_mtime};
    count++;
  }
  return count;
}

static const wn_Error *read_files(file **files, uint32_t *count) {
  DIR *open = opendir(directory);
  if (!open) {
    wn_string why = WN_CONCAT(wn_text("open "), wn_text(directory), wn_text(": "), wn_text(strerror(errno)), wn_text(": is the directory granted to this plugin?"));
    return wn_fail_with(WN_ERROR_CODE_UNAVAILABLE, why, false);
  }
  uint32_t room = list(open, NULL, 0);
  *files = wn_alloc(room * sizeof **files);
  rewinddir(open);
  *count = *files ? list(open, *files, room) : 0;
  if (*count > room) *count = room;  // one came in between: the next call sees it
  closedir(open);
  if (!*files) return wn_no_memory();
  qsort(*files, *count, sizeof **files, by_name);
  return NULL;
}

WN_DEVICE_DESCRIBE(request, response) {
  response->name = wn_text("c_example");
  response->version = wn_text("0.1.0");
  response->plugin_config_schema = wn_text(
      "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"dir\"],\"properties\":{"
      "\"dir\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4000,"
      "\"description\":\"The directory whose files are the devices. The plugin needs a grant to read it.\"}}}");
  return NULL;
}

WN_DEVICE_CONFIGURE(request, response) {
  wn_string dir = wn_json_string(wn_json_get(wn_json_parse(request->config), "dir"));
  if (!dir.size) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "config: dir is missing");
  if (dir.size >= sizeof directory) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "config: dir has more than 4095 bytes");
  memcpy(directory, dir.data, dir.size);
  directory[dir.size] = 0;
  return NULL;
}

WN_DEVICE_FINGERPRINT(request, response) {
  file *files;
  uint32_t count;
  WN_TRY(read_files(&files, &count));
  response->next_poll_ms = 1000;
  if (!count) return NULL;
  wn_Device *found = wn_alloc(count * sizeof *found);
  wn_DeviceGroup *groups = wn_alloc(sizeof *groups);
  wn_Attribute *dir = wn_alloc(sizeof *dir);
  wn_AttributeEntry *attributes = wn_alloc(sizeof *attributes);
  if (!found || !groups || !dir || !attributes) return wn_no_memory();
  for (uint32_t i = 0; i < count; i++) {
    found[i] = (wn_Device){.id = files[i].name, .healthy = files[i].size > 0};
    if (!found[i].healthy) found[i].health_description = wn_text("the file is empty");
  }
  *dir = (wn_Attribute){.value_case = 1, .string_value = wn_text(directory)};
  *attributes = (wn_AttributeEntry){wn_text("dir"), dir};
  *groups = (wn_DeviceGroup){.id = &group, .devices = found, .devices_count = count, .attributes = attributes, .attributes_count = 1};
  response->groups = groups, response->groups_count = 1;
  return NULL;
}

WN_DEVICE_RESERVE(request, response) {
  uint32_t count = request->device_ids_count;
  wn_EditedMount *mounts = wn_alloc(count * sizeof *mounts);
  wn_string *env = wn_alloc(sizeof *env);
  wn_ContainerEdits *edits = wn_alloc(sizeof *edits);
  if (!mounts || !env || !edits) return wn_no_memory();
  *env = wn_text("EXAMPLE_DEVICES=");
  for (uint32_t i = 0; i < count; i++) {
    wn_string id = request->device_ids[i], path = path_of(id);
    struct stat about;
    if (!path.size) return wn_no_memory();
    if (stat(path.data, &about)) return wn_fail_with(WN_ERROR_CODE_NOT_FOUND, WN_CONCAT(wn_text("device "), id, wn_text(" is gone")), false);
    *env = WN_CONCAT(*env, wn_text(i ? "," : ""), id);
    mounts[i] = (wn_EditedMount){.host_path = {path.data, path.size - 1}, .container_path = WN_CONCAT(wn_text("/devices/"), id)};
  }
  *edits = (wn_ContainerEdits){.env = env, .env_count = 1, .mounts = mounts, .mounts_count = count};
  response->container_edits = edits;
  return NULL;
}

// figures sets a device's.
static bool figures(wn_DeviceStats *of, const file *f) {
  static const wn_string paths[2][2] = {{{"file", 4}, {"size", 4}}, {{"file", 4}, {"modified", 8}}};
  wn_StatValue *values = wn_alloc(2 * sizeof *values);
  wn_DeviceStat *stats = wn_alloc(2 * sizeof *stats);
  if (!values || !stats) return false;
  values[0] = (wn_StatValue){.value_case = 2, .int_value = f->size, .unit = wn_text("B"), .description = wn_text("Size of the file")};
  values[1] = (wn_StatValue){.value_case = 2, .int_value = f->modified, .unit = wn_text("s")};
  for (int i = 0; i < 2; i++) stats[i] = (wn_DeviceStat){.path = paths[i], .path_count = 2, .value = &values[i]};
  *of = (wn_DeviceStats){.summary = values, .stats = stats, .stats_count = 2};
  return true;
}

WN_DEVICE_STATS(request, response) {
  file *files;
  uint32_t count;
  WN_TRY(read_files(&files, &count));
  if (!count) return NULL;
  wn_DeviceStats *stats = wn_alloc(count * sizeof *stats);
  wn_DeviceStatsEntry *entries = wn_alloc(count * sizeof *entries);
  wn_DeviceGroupStats *groups = wn_alloc(sizeof *groups);
  if (!stats || !entries || !groups) return wn_no_memory();
  for (uint32_t i = 0; i < count; i++) {
    if (!figures(&stats[i], &files[i])) return wn_no_memory();
    entries[i] = (wn_DeviceStatsEntry){files[i].name, &stats[i]};
  }
  *groups = (wn_DeviceGroupStats){.id = &group, .devices = entries, .devices_count = count};
  response->groups = groups, response->groups_count = 1;
  return NULL;
}
