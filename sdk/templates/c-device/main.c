// The device plugin "@NAME@": the devices are those that its configuration names, and a task is
// told which it has. Real ones would be looked for in device_fingerprint, and given to the task
// by mounts and device nodes of its edits.

#include "sdk/wasmnode.h"

static const char plugin_schema[] =
#include "plugin_schema.h"
    ;

static const wn_DeviceGroupId group = {.vendor = {"example", 7}, .type = {"@NAME@", sizeof "@NAME@" - 1}, .name = {"virtual", 7}};

// The configuration, which each instance gets before anything else. Nothing else may live in
// memory: the node throws an instance away whenever it likes, and what wn_alloc returns lasts
// until the next operation.
static char configuration[8192];
static uint32_t configuration_size;

// devices are those of the configuration.
static const wn_string *devices(uint32_t *count) {
  const wn_json *config = wn_json_parse((wn_string){configuration, configuration_size});
  return wn_json_texts(wn_json_get(config, "devices"), count);
}

// Says who the plugin is, and what its configuration may hold.
WN_DEVICE_DESCRIBE(request, response) {
  response->name = wn_text("@NAME@");
  response->version = wn_text("0.1.0");
  response->plugin_config_schema = wn_text(plugin_schema);
  return NULL;
}

// Takes the plugin's configuration. It was checked against the schema, and has its defaults.
WN_DEVICE_CONFIGURE(request, response) {
  wn_string config = request->config;
  if (config.size > sizeof configuration) return wn_fail(WN_ERROR_CODE_RESOURCE_EXHAUSTED, "config: it has more than 8192 bytes");
  if (config.size && !wn_json_parse(config)) return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, "config: that is no JSON");
  for (uint32_t i = 0; i < config.size; i++) configuration[i] = config.data[i];
  configuration_size = config.size;
  return NULL;
}

// Returns all devices that there are now.
WN_DEVICE_FINGERPRINT(request, response) {
  uint32_t count;
  const wn_string *ids = devices(&count);
  if (!count) return NULL;
  wn_Device *found = wn_alloc(count * sizeof *found);
  wn_DeviceGroup *groups = wn_alloc(sizeof *groups);
  if (!found || !groups) return wn_no_memory();
  for (uint32_t i = 0; i < count; i++) found[i] = (wn_Device){.id = ids[i], .healthy = true};
  *groups = (wn_DeviceGroup){.id = &group, .devices = found, .devices_count = count};
  response->groups = groups, response->groups_count = 1;
  return NULL;
}

static bool there_is(wn_string id) {
  uint32_t count;
  const wn_string *ids = devices(&count);
  for (uint32_t i = 0; i < count; i++)
    if (wn_equal(ids[i], id)) return true;
  return false;
}

static bool is_ours(const wn_DeviceGroupId *id) {
  return id && wn_equal(id->vendor, group.vendor) && wn_equal(id->type, group.type) && wn_equal(id->name, group.name);
}

// Prepares devices for a task, and answers the same when it is asked again. What it does here
// needs no device_release.
WN_DEVICE_RESERVE(request, response) {
  if (!is_ours(request->group)) return wn_fail(WN_ERROR_CODE_NOT_FOUND, "there is no such group of devices");
  wn_string text = wn_text("DEVICE_IDS=");
  for (uint32_t i = 0; i < request->device_ids_count; i++) {
    wn_string id = request->device_ids[i];
    if (!there_is(id)) return wn_fail_with(WN_ERROR_CODE_NOT_FOUND, WN_CONCAT(wn_text("a device is gone: "), id), false);
    text = WN_CONCAT(text, i ? wn_text(",") : wn_text(""), id);
  }
  wn_ContainerEdits *edits = wn_alloc(sizeof *edits);
  wn_string *env = wn_alloc(sizeof *env);
  if (!edits || !env) return wn_no_memory();
  *env = text;
  edits->env = env, edits->env_count = 1;
  response->container_edits = edits;
  return NULL;
}
