/* wasmnode.h: plugins for wasmnode in C, in one header without a library.
 *
 *   #include "wasmnode.h"
 *
 *   WN_DRIVER_DESCRIBE(request, response) {
 *     response->name = wn_text("mine");
 *     response->version = wn_text("0.1.0");
 *     return NULL;
 *   }
 *
 * Each operation is a function whose head is a macro, such as WN_DRIVER_START_TASK: it gets
 * the decoded request and fills in the response, which is zero before, or returns what
 * wn_fail made. An operation without a function is not exported, a capability that is not
 * called is not imported. The messages are those of abi/proto, with the same names.
 *
 * Memory that wn_alloc gives, and with it every request, answer and text, lasts until the
 * next operation begins. An instance of a plugin is in one operation at a time, and the node
 * may throw it away between any two.
 *
 * It is C11, needs no standard library, and goes together with one. On a machine that is not
 * WebAssembly it compiles as well; wasmnode_test.h takes the place of the node there. */
#ifndef WASMNODE_H
#define WASMNODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __wasm__
#define WN_IMPORT(module, name) __attribute__((import_module(module), import_name(name))) extern
#define WN_EXPORT(name) __attribute__((export_name(name)))
#else
#include <stdlib.h>
#define WN_IMPORT(module, name) extern
#define WN_EXPORT(name)
#endif
#define WN_FUNCTION static __attribute__((unused))
#define WN_UNUSED __attribute__((unused))

/* ---- Texts and memory ---- */

/* wn_string is text in UTF-8, or bytes: it has a length and need not end with a zero. */
typedef struct wn_string {
  const char *data;
  uint32_t size;
} wn_string;

/* wn_text returns a text that ends with a zero as it is. */
WN_FUNCTION wn_string wn_text(const char *text) {
  uint32_t size = 0;
  while (text && text[size]) size++;
  return (wn_string){text, size};
}

/* wn_equal reports whether two texts are the same. */
WN_FUNCTION bool wn_equal(wn_string a, wn_string b) {
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.size; i++)
    if (a.data[i] != b.data[i]) return false;
  return true;
}

/* What an operation may use of memory, its request and its answer included. */
#ifndef WN_MEMORY_MAX
#define WN_MEMORY_MAX (64u << 20)
#endif

/* wn_chunk is a piece of memory that wn_alloc gives from. */
typedef struct wn_chunk {
  struct wn_chunk *next;
  size_t size;
} wn_chunk;

static struct {
  wn_chunk *first, *at;
  size_t used;  /* of the chunk that is in use */
  size_t total; /* of all chunks */
} wn_memory WN_UNUSED;

#define WN_PAGE 65536u

/* wn_new_chunk gets a piece from the machine, NULL where there is none. */
WN_FUNCTION wn_chunk *wn_new_chunk(size_t size) {
  size_t pages = (size + sizeof(wn_chunk) + WN_PAGE - 1) / WN_PAGE;
  wn_chunk *chunk;
  if (pages * WN_PAGE > WN_MEMORY_MAX - wn_memory.total) return NULL;
#ifdef __wasm__
  size_t before = __builtin_wasm_memory_grow(0, pages);
  if (before == (size_t)-1) return NULL;
  chunk = (wn_chunk *)(before * WN_PAGE);
#else
  if (!(chunk = malloc(pages * WN_PAGE))) return NULL;
#endif
  chunk->size = pages * WN_PAGE;
  wn_memory.total += chunk->size;
  return chunk;
}

/* wn_alloc returns memory that is zero and lasts until the next operation begins, or NULL
 * when there is no more. */
WN_FUNCTION void *wn_alloc(size_t size) {
  if (size > WN_MEMORY_MAX) return NULL;
  size = (size + 15) & ~(size_t)15;
  while (!wn_memory.at || size > wn_memory.at->size - wn_memory.used) {
    wn_chunk *next = wn_memory.at ? wn_memory.at->next : wn_memory.first;
    if (!next || next->size - sizeof(wn_chunk) < size) {
      wn_chunk *behind = next;
      if (!(next = wn_new_chunk(size))) return NULL;
      next->next = behind;
      *(wn_memory.at ? &wn_memory.at->next : &wn_memory.first) = next;
    }
    wn_memory.at = next;
    wn_memory.used = sizeof(wn_chunk);
  }
  char *memory = (char *)wn_memory.at + wn_memory.used;
  wn_memory.used += size;
  __builtin_memset(memory, 0, size);
  return memory;
}

/* wn_release makes all memory that wn_alloc gave free again. */
WN_FUNCTION void wn_release(void) { wn_memory.at = NULL; }

/* wn_concat returns texts behind one another, empty when there is no memory. */
WN_FUNCTION wn_string wn_concat(const wn_string *parts, size_t count) {
  size_t size = 0, at = 0;
  for (size_t i = 0; i < count; i++) size += parts[i].size;
  char *text = wn_alloc(size);
  if (!text) return (wn_string){0};
  for (size_t i = 0; i < count; i++) {
    if (parts[i].size) __builtin_memcpy(text + at, parts[i].data, parts[i].size);
    at += parts[i].size;
  }
  return (wn_string){text, (uint32_t)size};
}
/* WN_CONCAT returns its texts as one. */
#define WN_CONCAT(...) wn_concat((wn_string[]){__VA_ARGS__}, sizeof((wn_string[]){__VA_ARGS__}) / sizeof(wn_string))

/* ---- The codec: Protocol Buffers by tables ---- */

/* wn_message is what the codec knows of a message. */
typedef struct wn_message wn_message;

enum { WN_BOOL, WN_INT32, WN_UINT32, WN_INT64, WN_DOUBLE, WN_STRING, WN_MESSAGE };
enum { WN_ONE, WN_OPTIONAL, WN_MANY, WN_CASE, WN_ALWAYS };

/* wn_field is what it knows of a member. */
typedef struct wn_field {
  uint16_t number;
  uint8_t kind;
  uint8_t label;
  uint16_t offset;
  uint16_t beside; /* where the count, the flag or the case is */
  const wn_message *message;
} wn_field;

struct wn_message {
  const wn_field *fields;
  uint16_t count;
  uint16_t size; /* of the structure */
};

WN_FUNCTION bool wn_encode(const wn_message *message, const void *from, wn_string *to);
WN_FUNCTION int32_t wn_decode(const wn_message *message, wn_string from, void *to);

/* ---- Answers of capabilities, requests of operations ---- */

struct wn_Error;
WN_FUNCTION const struct wn_Error *wn_no_memory(void);
WN_FUNCTION const struct wn_Error *wn_answered(uint64_t status, const wn_message *message, void *response);
WN_FUNCTION const struct wn_Error *wn_begin(uint32_t length, const wn_message *message, void *request);
WN_FUNCTION uint32_t wn_end(const struct wn_Error *error, const wn_message *message, const void *response);

/* WN_OPERATION is the head of the function of an operation; each has a macro of its own. */
#define WN_OPERATION(name, Request, Response, request, response)                        \
  static const struct wn_Error *name(const Request *request, Response *response);       \
  WN_EXPORT(#name) uint32_t wn_export_##name(uint32_t length) {                         \
    Request wn_request = {0};                                                           \
    Response wn_response = {0};                                                         \
    const struct wn_Error *error = wn_begin(length, &Request##_message, &wn_request);   \
    if (!error) error = name(&wn_request, &wn_response);                                \
    return wn_end(error, &Response##_message, &wn_response);                            \
  }                                                                                     \
  static const struct wn_Error *name(WN_UNUSED const Request *request, WN_UNUSED Response *response)

/* Generated by internal/tools/protoc-gen-sdk: from here */

/* TaskState is a task's state as the driver sees it. */
typedef int32_t wn_TaskState;
enum {
  WN_TASK_STATE_UNSPECIFIED = 0,
  WN_TASK_STATE_UNKNOWN = 1,
  WN_TASK_STATE_RUNNING = 2,
  WN_TASK_STATE_EXITED = 3,
};

/* FilesystemIsolation tells what paths a task sees, which decides the values of
 * NOMAD_ALLOC_DIR, NOMAD_TASK_DIR and NOMAD_SECRETS_DIR. */
typedef int32_t wn_FilesystemIsolation;
enum {
  /* As FILESYSTEM_ISOLATION_NONE. */
  WN_FILESYSTEM_ISOLATION_UNSPECIFIED = 0,
  /* The task sees the host's paths. */
  WN_FILESYSTEM_ISOLATION_NONE = 1,
  /* The task sees /alloc, /local and /secrets in a root of its own. */
  WN_FILESYSTEM_ISOLATION_CHROOT = 2,
  /* As chroot, in a root that the driver brings with it. */
  WN_FILESYSTEM_ISOLATION_IMAGE = 3,
};

/* HealthState is a driver's own judgement of itself. */
typedef int32_t wn_HealthState;
enum {
  /* Refused by the host: a driver has to say. */
  WN_HEALTH_STATE_UNSPECIFIED = 0,
  /* What the driver needs is not on this machine. */
  WN_HEALTH_STATE_UNDETECTED = 1,
  /* It is there and does not work. */
  WN_HEALTH_STATE_UNHEALTHY = 2,
  WN_HEALTH_STATE_HEALTHY = 3,
};

/* ErrorCode is a gRPC status code: the same names and the same numbers, so that
 * an author who knows one knows the other. */
typedef int32_t wn_ErrorCode;
enum {
  /* Zero means success wherever a status travels as a bare number. */
  WN_ERROR_CODE_UNSPECIFIED = 0,
  WN_ERROR_CODE_CANCELLED = 1,
  WN_ERROR_CODE_UNKNOWN = 2,
  WN_ERROR_CODE_INVALID_ARGUMENT = 3,
  WN_ERROR_CODE_DEADLINE_EXCEEDED = 4,
  WN_ERROR_CODE_NOT_FOUND = 5,
  WN_ERROR_CODE_ALREADY_EXISTS = 6,
  WN_ERROR_CODE_PERMISSION_DENIED = 7,
  WN_ERROR_CODE_RESOURCE_EXHAUSTED = 8,
  WN_ERROR_CODE_FAILED_PRECONDITION = 9,
  WN_ERROR_CODE_ABORTED = 10,
  WN_ERROR_CODE_OUT_OF_RANGE = 11,
  WN_ERROR_CODE_UNIMPLEMENTED = 12,
  WN_ERROR_CODE_INTERNAL = 13,
  WN_ERROR_CODE_UNAVAILABLE = 14,
  WN_ERROR_CODE_DATA_LOSS = 15,
  WN_ERROR_CODE_UNAUTHENTICATED = 16,
};

/* LogLevel is the urgency of a log line. */
typedef int32_t wn_LogLevel;
enum {
  /* As LOG_LEVEL_INFO. */
  WN_LOG_LEVEL_UNSPECIFIED = 0,
  WN_LOG_LEVEL_TRACE = 1,
  WN_LOG_LEVEL_DEBUG = 2,
  WN_LOG_LEVEL_INFO = 3,
  WN_LOG_LEVEL_WARN = 4,
  WN_LOG_LEVEL_ERROR = 5,
};

/* ProcessNetwork is the network that a process begins in. */
typedef int32_t wn_ProcessNetwork;
enum {
  /* The task's: that of its group, or the node's where that has none of its own. */
  WN_PROCESS_NETWORK_UNSPECIFIED = 0,
  /* The node's, which has to be granted if the task's is another. */
  WN_PROCESS_NETWORK_HOST = 1,
  /* One of its own, with nothing but a loopback interface. Only a node that is root can make it. */
  WN_PROCESS_NETWORK_NONE = 2,
  /* That of network_namespace. It is never the node's own. */
  WN_PROCESS_NETWORK_NAMESPACE = 3,
};

/* ProcessIsolation is how much of the node a process sees. */
typedef int32_t wn_ProcessIsolation;
enum {
  /* Refused by the host: a driver has to say. */
  WN_PROCESS_ISOLATION_UNSPECIFIED = 0,
  /* All that its user may see. */
  WN_PROCESS_ISOLATION_NONE = 1,
  /* A root, namespaces and limits of its own: the memory that the task was promised
   * bounds it, its CPU is a weight, its mounts and devices are there. */
  WN_PROCESS_ISOLATION_FULL = 2,
  /* Of the node's files it may use those of its task, harmless devices, and what is in
   * paths. It cannot look into processes that it did not start nor, from Linux 6.12 on,
   * signal them. Root has few capabilities. For that the node need not be root. Memory and
   * CPU are not bounded. */
  WN_PROCESS_ISOLATION_PATHS = 3,
};

/* StreamEvent is what a stream can do without waiting. The numbers can be added. */
typedef int32_t wn_StreamEvent;
enum {
  WN_STREAM_EVENT_UNSPECIFIED = 0,
  /* A read answers at once: bytes, the end or an error. */
  WN_STREAM_EVENT_READABLE = 1,
  /* A write answers at once: it takes bytes, or fails. */
  WN_STREAM_EVENT_WRITABLE = 2,
  /* All bytes have been read, and no more come: a read answers the end or an error. */
  WN_STREAM_EVENT_ENDED = 4,
  /* The response of a stream that http/v1 made answers at once. */
  WN_STREAM_EVENT_RESPONSE = 8,
};

/* Attribute is a typed value with an optional unit. Exactly one value is set;
 * zero and unset differ. */
typedef struct wn_Attribute {
  /* The member that is set, by its number; 0: none is. */
  uint32_t value_case;
  union {
    wn_string string_value; /* 1 */
    bool bool_value; /* 2 */
    int64_t int_value; /* 3 */
    double float_value; /* 4 */
  };
  /* A unit such as "MiB", "MHz" or "W", with a number only. */
  wn_string unit;
} wn_Attribute;

/* DeviceDescribeRequest asks a device plugin who it is. It is the first call that
 * a plugin gets, before it has been granted or configured anything. */
typedef struct wn_DeviceDescribeRequest {
  /* The version of the node that asks, as semver. */
  wn_string host_version;
} wn_DeviceDescribeRequest;

/* DeviceDescribeResponse is what a device plugin says of itself. */
typedef struct wn_DeviceDescribeResponse {
  /* The plugin's name, by which a node is configured: a letter, then letters,
   * digits, '_' or '-', at most 64 bytes. */
  wn_string name;
  /* The plugin's own version, as semver. */
  wn_string version;
  /* JSON Schema (2020-12) of the plugin's own configuration; empty: takes none. */
  wn_string plugin_config_schema;
  /* As a driver's. */
  const wn_string *optional_capabilities;
  uint32_t optional_capabilities_count;
} wn_DeviceDescribeResponse;

/* DeviceConfigureRequest hands a device plugin its own configuration. */
typedef struct wn_DeviceConfigureRequest {
  /* JSON, valid under plugin_config_schema, its defaults applied. */
  wn_string config;
} wn_DeviceConfigureRequest;

/* DeviceConfigureResponse is empty: a configuration is taken or refused. */
typedef struct wn_DeviceConfigureResponse {
  char empty; /* C has no empty structures */
} wn_DeviceConfigureResponse;

/* DeviceFingerprintRequest asks which devices there are now. */
typedef struct wn_DeviceFingerprintRequest {
  char empty; /* C has no empty structures */
} wn_DeviceFingerprintRequest;

/* DeviceGroupId names a group of equal devices: what a job file asks for as
 * `device "TYPE"`, `device "VENDOR/TYPE"` or `device "VENDOR/TYPE/NAME"`. No part is
 * empty, longer than 128 bytes or holds '/' or a control character. */
typedef struct wn_DeviceGroupId {
  wn_string vendor;
  wn_string type;
  wn_string name;
} wn_DeviceGroupId;

/* Device is one device that one task can have. */
typedef struct wn_Device {
  /* The same for the same device after restarts, and no other device's on the node:
   * 1 to 128 bytes that print. */
  wn_string id;
  /* New tasks get only healthy devices. */
  bool healthy;
  /* One line for a person. */
  wn_string health_description;
  /* Where it is attached, such as "0000:3b:00.0"; empty: not to PCI. */
  wn_string pci_bus_id;
} wn_Device;

/* AttributeEntry is a key of a map with its value. */
typedef struct wn_AttributeEntry {
  wn_string key;
  const wn_Attribute *value;
} wn_AttributeEntry;

/* DeviceGroup are devices that a task may use in place of one another. */
typedef struct wn_DeviceGroup {
  const wn_DeviceGroupId *id;
  /* At most 4,096 in all groups of a plugin together. */
  const wn_Device *devices;
  uint32_t devices_count;
  /* What all devices of the group have in common; at most 64, with keys of at most
   * 128 bytes. */
  const wn_AttributeEntry *attributes;
  uint32_t attributes_count;
} wn_DeviceGroup;

/* DeviceFingerprintResponse is the complete list of the plugin's devices. */
typedef struct wn_DeviceFingerprintResponse {
  /* At most 64, each once; none: there is no device on this machine. */
  const wn_DeviceGroup *groups;
  uint32_t groups_count;
  /* When to ask again, in milliseconds; 0: the host decides. */
  uint32_t next_poll_ms;
} wn_DeviceFingerprintResponse;

/* DeviceUser is the task that devices are for. There is one for each task of each
 * allocation, for as long as the allocation lives: restarts of a task, of the agent
 * and of the plugin do not change it. */
typedef struct wn_DeviceUser {
  wn_string alloc_id;
  wn_string task_name;
  wn_string job_id;
  wn_string task_group_name;
  wn_string namespace;
} wn_DeviceUser;

/* DeviceReserveRequest asks to prepare devices for a task, and how the task gets at
 * them. The same request may come again and is answered the same. */
typedef struct wn_DeviceReserveRequest {
  const wn_DeviceGroupId *group;
  /* At least one, of those that the last fingerprint named. */
  const wn_string *device_ids;
  uint32_t device_ids_count;
  const wn_DeviceUser *user;
} wn_DeviceReserveRequest;

/* EditedDeviceNode makes a device node of the host's visible in a task. */
typedef struct wn_EditedDeviceNode {
  /* Inside the task. */
  wn_string path;
  /* On the host; empty: the same as path. */
  wn_string host_path;
  /* A subset of "rwm"; empty: "rw". */
  wn_string permissions;
} wn_EditedDeviceNode;

/* EditedMount makes a file or directory of the host's visible in a task. */
typedef struct wn_EditedMount {
  wn_string host_path;
  wn_string container_path;
  /* "ro" or "rw", "bind" or "rbind"; others are refused. Without "rw" a mount is
   * read-only. */
  const wn_string *options;
  uint32_t options_count;
} wn_EditedMount;

/* EditedHook stands for a hook of any kind. */
typedef struct wn_EditedHook {
  wn_string hook_name;
  wn_string path;
} wn_EditedHook;

/* ContainerEdits has the shape of the containerEdits of the Container Device
 * Interface, 1.1. What a node does not do is refused, not left out. */
typedef struct wn_ContainerEdits {
  /* As "NAME=value". */
  const wn_string *env;
  uint32_t env_count;
  const wn_EditedDeviceNode *device_nodes;
  uint32_t device_nodes_count;
  const wn_EditedMount *mounts;
  uint32_t mounts_count;
  /* Refused: a node runs no programs of a plugin's. */
  const wn_EditedHook *hooks;
  uint32_t hooks_count;
} wn_ContainerEdits;

/* DeviceReserveResponse tells how a task gets at its devices. */
typedef struct wn_DeviceReserveResponse {
  const wn_ContainerEdits *container_edits;
} wn_DeviceReserveResponse;

/* DeviceReleaseRequest says that a task no longer uses devices. It comes once a
 * reserve has succeeded or failed, and may come again. Releasing what is not
 * reserved succeeds. */
typedef struct wn_DeviceReleaseRequest {
  const wn_DeviceGroupId *group;
  const wn_string *device_ids;
  uint32_t device_ids_count;
  const wn_DeviceUser *user;
} wn_DeviceReleaseRequest;

/* DeviceReleaseResponse is empty: nothing is kept for the task. */
typedef struct wn_DeviceReleaseResponse {
  char empty; /* C has no empty structures */
} wn_DeviceReleaseResponse;

/* DeviceStatsRequest asks for the figures of all devices. */
typedef struct wn_DeviceStatsRequest {
  char empty; /* C has no empty structures */
} wn_DeviceStatsRequest;

/* StatValue is a typed figure. Exactly one value is set; zero and unset differ. */
typedef struct wn_StatValue {
  /* The member that is set, by its number; 0: none is. */
  uint32_t value_case;
  union {
    double float_value; /* 1 */
    int64_t int_value; /* 2 */
    wn_string string_value; /* 3 */
    bool bool_value; /* 4 */
  };
  /* The member that is set, by its number; 0: none is.
   * The whole that the value is a part of, of the value's type. */
  uint32_t denominator_case;
  union {
    double float_denominator; /* 5 */
    int64_t int_denominator; /* 6 */
  };
  /* A unit such as "MiB", "MHz" or "W", with a number only. */
  wn_string unit;
  /* One line for a person. */
  wn_string description;
} wn_StatValue;

/* DeviceStat is a figure with its place: ["memory", "used"] is the figure "used" of
 * the object "memory". Objects are written as paths, so that no decoder recurses. */
typedef struct wn_DeviceStat {
  /* One to eight names of at most 128 bytes. */
  const wn_string *path;
  uint32_t path_count;
  const wn_StatValue *value;
} wn_DeviceStat;

/* DeviceStats are the figures of one device. */
typedef struct wn_DeviceStats {
  /* The one that tells most, such as the memory in use. */
  const wn_StatValue *summary;
  /* At most 256. */
  const wn_DeviceStat *stats;
  uint32_t stats_count;
  /* When they were taken, in nanoseconds since the Unix epoch; 0: now. */
  int64_t time_ns;
} wn_DeviceStats;

/* DeviceStatsEntry is a key of a map with its value. */
typedef struct wn_DeviceStatsEntry {
  wn_string key;
  const wn_DeviceStats *value;
} wn_DeviceStatsEntry;

/* DeviceGroupStats are figures of a group's devices, by ID. A device without any is
 * left out. */
typedef struct wn_DeviceGroupStats {
  const wn_DeviceGroupId *id;
  const wn_DeviceStatsEntry *devices;
  uint32_t devices_count;
} wn_DeviceGroupStats;

/* DeviceStatsResponse are the figures of this moment. */
typedef struct wn_DeviceStatsResponse {
  const wn_DeviceGroupStats *groups;
  uint32_t groups_count;
  /* When to ask again, in milliseconds; 0: the host decides. */
  uint32_t next_poll_ms;
} wn_DeviceStatsResponse;

/* StringEntry is a key of a map with its value. */
typedef struct wn_StringEntry {
  wn_string key;
  wn_string value;
} wn_StringEntry;

/* Resources is what a task was promised. */
typedef struct wn_Resources {
  /* CPU in MHz, shared. */
  uint64_t cpu_mhz;
  /* Memory in bytes, reserved. */
  uint64_t memory_bytes;
  /* Memory in bytes that may be used at most; 0: memory_bytes. */
  uint64_t memory_max_bytes;
  /* Whole cores by number, when the task reserved any. */
  const uint32_t *cores;
  uint32_t cores_count;
  /* What cpu_mhz is of the node's processors, in thousandths of one, rounded up; 0: it
   * is not known. */
  uint32_t cpu_thousandths;
  /* The cores that processes of the task may be kept on, such as "0-3,6": those of cores, or, if
   * there are none, those that no task had reserved, and the node does not keep back, when this
   * was written. Numbers are those of cores. Empty: that is not known. */
  wn_string cpuset;
} wn_Resources;

/* TaskDirectories are host paths. */
typedef struct wn_TaskDirectories {
  /* The allocation's directory. */
  wn_string alloc;
  /* Shared between the allocation's tasks: NOMAD_ALLOC_DIR. */
  wn_string shared;
  /* The task's own directory, the parent of local and secrets. */
  wn_string task;
  /* NOMAD_TASK_DIR. */
  wn_string local;
  /* NOMAD_SECRETS_DIR. */
  wn_string secrets;
  /* The directory of the task's log files. */
  wn_string logs;
} wn_TaskDirectories;

/* Mount makes a host path visible in a task. */
typedef struct wn_Mount {
  wn_string task_path;
  wn_string host_path;
  bool read_only;
} wn_Mount;

/* DeviceNode makes a device node of the host's visible in a task. */
typedef struct wn_DeviceNode {
  wn_string task_path;
  wn_string host_path;
  /* A subset of "rwm". */
  wn_string permissions;
} wn_DeviceNode;

/* Port is one port that the allocation was given. */
typedef struct wn_Port {
  wn_string label;
  wn_string host_ip;
  uint32_t host_port;
  /* The port inside the task; 0: the same as on the host. */
  uint32_t task_port;
} wn_Port;

/* LogConfig bounds a task's log files. */
typedef struct wn_LogConfig {
  /* Files kept per stream, at least 1. */
  uint32_t max_files;
  /* The size in bytes at which a file is rotated. */
  uint64_t max_file_size_bytes;
  /* Nothing is kept. */
  bool disabled;
} wn_LogConfig;

/* TaskNetwork is a network namespace that the tasks of an allocation share. */
typedef struct wn_TaskNetwork {
  /* As in the job file: "bridge", "none", or "cni/" and a network's name. */
  wn_string mode;
  /* The host path of the namespace. */
  wn_string namespace;
  /* The interface's name and address in it; empty: there is only the loopback one. */
  wn_string interface;
  wn_string ip;
} wn_TaskNetwork;

/* TaskConfig is all that a driver is told about a task. */
typedef struct wn_TaskConfig {
  /* Unique per invocation: allocation ID, task name and a piece of a fresh UUID. */
  wn_string id;
  wn_string name;
  wn_string alloc_id;
  wn_string job_name;
  wn_string job_id;
  wn_string parent_job_id;
  wn_string task_group_name;
  wn_string namespace;
  wn_string node_name;
  wn_string node_id;
  const wn_StringEntry *env;
  uint32_t env_count;
  /* The part of env that devices asked for. */
  const wn_StringEntry *device_env;
  uint32_t device_env_count;
  /* The user to run as; empty: the driver's default. */
  wn_string user;
  const wn_Resources *resources;
  const wn_TaskDirectories *directories;
  /* Host paths of the task's log files before rotation: the driver passes them
   * on or ignores them; workloads of the host's write there by themselves. */
  wn_string stdout_path;
  wn_string stderr_path;
  const wn_Mount *mounts;
  uint32_t mounts_count;
  const wn_DeviceNode *devices;
  uint32_t devices_count;
  const wn_Port *ports;
  uint32_t ports_count;
  /* JSON: the job file's `config` block, interpolated, valid under
   * task_config_schema, its defaults applied. */
  wn_string driver_config;
  const wn_LogConfig *log;
  /* The network that the task's allocation has for itself; unset: the node's. */
  const wn_TaskNetwork *network;
} wn_TaskConfig;

/* TaskHandle is what a driver needs to find its task again. */
typedef struct wn_TaskHandle {
  /* The version of driver_state; the driver's own, at least 1. */
  uint32_t version;
  /* Opaque to the host; at most 64 KiB. */
  wn_string driver_state;
  /* The workload that the host runs for this task, as a capability returned it;
   * empty: the task is something that the host does not own. */
  wn_string workload_id;
} wn_TaskHandle;

/* Uint32Entry is a key of a map with its value. */
typedef struct wn_Uint32Entry {
  wn_string key;
  uint32_t value;
} wn_Uint32Entry;

/* DriverNetwork is set by drivers whose tasks have addresses of their own. */
typedef struct wn_DriverNetwork {
  wn_string ip;
  const wn_Uint32Entry *port_map;
  uint32_t port_map_count;
  bool auto_advertise;
} wn_DriverNetwork;

/* ExitResult tells how a task ended. */
typedef struct wn_ExitResult {
  int32_t exit_code;
  /* The number of the signal that ended it; 0: none did. */
  int32_t signal;
  bool oom_killed;
  /* Set when the driver cannot tell how the task ended. */
  wn_string error;
} wn_ExitResult;

/* TaskStatus is what a driver knows of a task. */
typedef struct wn_TaskStatus {
  wn_TaskState state;
  /* Nanoseconds since the Unix epoch; 0: not yet. */
  int64_t started_at_ns;
  int64_t completed_at_ns;
  const wn_ExitResult *exit_result;
  const wn_StringEntry *attributes;
  uint32_t attributes_count;
} wn_TaskStatus;

/* TaskStats is what a task uses. A field that is not set was not measured. */
typedef struct wn_TaskStats {
  /* Nanoseconds since the Unix epoch. */
  int64_t time_ns;
  /* CPU time used since the start, in nanoseconds. */
  bool has_cpu_user_ns;
  uint64_t cpu_user_ns;
  bool has_cpu_system_ns;
  uint64_t cpu_system_ns;
  bool has_cpu_total_ns;
  uint64_t cpu_total_ns;
  bool has_memory_rss_bytes;
  uint64_t memory_rss_bytes;
  bool has_memory_max_bytes;
  uint64_t memory_max_bytes;
} wn_TaskStats;

/* OutputMark is what a driver last remembered with a stream of a task's output. */
typedef struct wn_OutputMark {
  /* At most 256 bytes; empty: nothing was remembered in this invocation of the task. */
  wn_string mark;
  /* How many bytes of the stream were output since. */
  uint64_t bytes_since;
} wn_OutputMark;

/* TaskEvent is shown among a task's events with the type "Driver". */
typedef struct wn_TaskEvent {
  wn_string task_id;
  /* At most 1 KiB. */
  wn_string message;
  const wn_StringEntry *annotations;
  uint32_t annotations_count;
} wn_TaskEvent;

/* DriverDescribeRequest asks a driver who it is. It is the first call that a
 * plugin gets, before it has been granted or configured anything. */
typedef struct wn_DriverDescribeRequest {
  /* The version of the node that asks, as semver. */
  wn_string host_version;
} wn_DriverDescribeRequest;

/* DriverCapabilities tells the node what it may ask of a driver. */
typedef struct wn_DriverCapabilities {
  bool send_signals;
  bool exec;
  wn_FilesystemIsolation filesystem_isolation;
  /* Its tasks can run in a network namespace, that of TaskConfig.network. With a
   * workload that the node owns there is nothing to do for it. */
  bool network_namespaces;
  /* Its tasks can only be in a network namespace of the driver's own making: the node
   * asks for one before it gives the allocation its network. It needs
   * network_namespaces, too. */
  bool creates_networks;
} wn_DriverCapabilities;

/* DriverDescribeResponse is what a driver says of itself. */
typedef struct wn_DriverDescribeResponse {
  /* The name that job files use as `driver = "NAME"`: a letter, then letters,
   * digits, '_' or '-', at most 64 bytes. */
  wn_string name;
  /* The plugin's own version, as semver. */
  wn_string version;
  const wn_DriverCapabilities *capabilities;
  /* JSON Schema (2020-12) of the plugin's own configuration; empty: takes none. */
  wn_string plugin_config_schema;
  /* JSON Schema (2020-12) of a task's `config` block; empty: takes none. */
  wn_string task_config_schema;
  /* Modules that the plugin imports, such as "wasmnode:kv/v1", and does without where
   * they are not granted: it is used all the same, and what it asks of them is
   * PERMISSION_DENIED. */
  const wn_string *optional_capabilities;
  uint32_t optional_capabilities_count;
} wn_DriverDescribeResponse;

/* DriverConfigureRequest hands a driver its own configuration. */
typedef struct wn_DriverConfigureRequest {
  /* JSON, valid under plugin_config_schema, its defaults applied. */
  wn_string config;
} wn_DriverConfigureRequest;

/* DriverConfigureResponse is empty: a configuration is taken or refused. */
typedef struct wn_DriverConfigureResponse {
  char empty; /* C has no empty structures */
} wn_DriverConfigureResponse;

/* DriverFingerprintRequest asks whether the driver can run tasks now. */
typedef struct wn_DriverFingerprintRequest {
  char empty; /* C has no empty structures */
} wn_DriverFingerprintRequest;

/* DriverFingerprintResponse is a driver's state at this moment. */
typedef struct wn_DriverFingerprintResponse {
  wn_HealthState health;
  /* One line for a person; shown by `node status`. */
  wn_string description;
  /* Node attributes, by full name, such as "driver.wasi.version". */
  const wn_AttributeEntry *attributes;
  uint32_t attributes_count;
  /* When to ask again, in milliseconds; 0: the host decides. */
  uint32_t next_poll_ms;
} wn_DriverFingerprintResponse;

/* DriverStartTaskRequest asks a driver to start a task. */
typedef struct wn_DriverStartTaskRequest {
  const wn_TaskConfig *task;
} wn_DriverStartTaskRequest;

/* DriverStartTaskResponse is a task that runs. */
typedef struct wn_DriverStartTaskResponse {
  const wn_TaskHandle *handle;
  const wn_DriverNetwork *network;
} wn_DriverStartTaskResponse;

/* DriverRecoverTaskRequest hands a running task to a driver instance that does
 * not know it: after an agent restart, a guest fault, or a plugin upgrade. */
typedef struct wn_DriverRecoverTaskRequest {
  const wn_TaskConfig *task;
  const wn_TaskHandle *handle;
} wn_DriverRecoverTaskRequest;

/* DriverRecoverTaskResponse is the handle to use from now on; unset: the same. */
typedef struct wn_DriverRecoverTaskResponse {
  const wn_TaskHandle *handle;
} wn_DriverRecoverTaskResponse;

/* DriverWaitTaskRequest asks how a task ended. A driver may block in host calls
 * until it has, or until the call is cancelled (the call has an instance to
 * itself), or answer at once that it still runs and be asked again. */
typedef struct wn_DriverWaitTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
} wn_DriverWaitTaskRequest;

/* DriverWaitTaskResponse tells how a task ended, or that it has not. */
typedef struct wn_DriverWaitTaskResponse {
  /* Unset: the task still runs. */
  const wn_ExitResult *result;
  /* When to ask again, in milliseconds, while the task runs; 0: after 1,000.
   * After a stop or a signal the host asks at once. */
  uint32_t poll_after_ms;
} wn_DriverWaitTaskResponse;

/* DriverStopTaskRequest asks for the signal, a wait of at most timeout_ms, and
 * then force. It returns when the task has ended. */
typedef struct wn_DriverStopTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
  uint64_t timeout_ms;
  /* A signal's name, such as "SIGTERM"; empty: the driver's default. */
  wn_string signal;
} wn_DriverStopTaskRequest;

/* DriverStopTaskResponse says that the task has ended. */
typedef struct wn_DriverStopTaskResponse {
  /* The handle to use from now on; unset: the same. */
  const wn_TaskHandle *handle;
} wn_DriverStopTaskResponse;

/* DriverSignalTaskRequest sends a signal to a running task. */
typedef struct wn_DriverSignalTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
  /* A signal's name, such as "SIGHUP". */
  wn_string signal;
} wn_DriverSignalTaskRequest;

/* DriverSignalTaskResponse says that the signal was sent. */
typedef struct wn_DriverSignalTaskResponse {
  /* The handle to use from now on; unset: the same. */
  const wn_TaskHandle *handle;
} wn_DriverSignalTaskResponse;

/* DriverDestroyTaskRequest asks a driver to forget a task and free what it
 * holds. Destroying what is not there succeeds. */
typedef struct wn_DriverDestroyTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
  /* Destroy it even when it runs. */
  bool force;
} wn_DriverDestroyTaskRequest;

/* DriverDestroyTaskResponse is empty: nothing of the task is left. */
typedef struct wn_DriverDestroyTaskResponse {
  char empty; /* C has no empty structures */
} wn_DriverDestroyTaskResponse;

/* DriverInspectTaskRequest asks for the state of a task. */
typedef struct wn_DriverInspectTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
} wn_DriverInspectTaskRequest;

/* DriverInspectTaskResponse is the state of a task. */
typedef struct wn_DriverInspectTaskResponse {
  const wn_TaskStatus *status;
} wn_DriverInspectTaskResponse;

/* DriverTaskStatsRequest asks what a task uses now. */
typedef struct wn_DriverTaskStatsRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
} wn_DriverTaskStatsRequest;

/* DriverTaskStatsResponse is what a task uses now. */
typedef struct wn_DriverTaskStatsResponse {
  const wn_TaskStats *stats;
} wn_DriverTaskStatsResponse;

/* TerminalSize is a terminal's size in characters, of 16 bits each. */
typedef struct wn_TerminalSize {
  uint32_t rows;
  uint32_t columns;
} wn_TerminalSize;

/* DriverExecTaskRequest runs a command inside a running task. */
typedef struct wn_DriverExecTaskRequest {
  wn_string task_id;
  const wn_TaskHandle *handle;
  const wn_string *command;
  uint32_t command_count;
  /* 0: the command may take as long as whoever asked for it waits. */
  uint64_t timeout_ms;
  /* Whether the command gets a terminal. A driver that does not import exec/v1 is not asked
   * for one. */
  bool tty;
  /* The terminal's size; unset without one. */
  const wn_TerminalSize *size;
} wn_DriverExecTaskRequest;

/* DriverExecTaskResponse is what the command left. Of a command whose streams were opened it
 * is the result alone. */
typedef struct wn_DriverExecTaskResponse {
  wn_string stdout_;
  wn_string stderr_;
  const wn_ExitResult *result;
} wn_DriverExecTaskResponse;

/* DriverCreateNetworkRequest asks for a network namespace that the tasks of an
 * allocation, those of other drivers too, are to share. */
typedef struct wn_DriverCreateNetworkRequest {
  /* The same allocation may come again, and has the same namespace then, if that is
   * still there. */
  wn_string alloc_id;
  /* The host name of the group's network; empty: none was asked for. */
  wn_string hostname;
} wn_DriverCreateNetworkRequest;

/* DriverCreateNetworkResponse is a namespace without interfaces, which the node puts
 * them into. */
typedef struct wn_DriverCreateNetworkResponse {
  /* The absolute path of a file, which the operator has to have granted; empty: the
   * driver's tasks can be in one that the node makes. */
  wn_string namespace;
} wn_DriverCreateNetworkResponse;

/* DriverDestroyNetworkRequest lets go of what was created, once the allocation's
 * tasks have ended. Destroying what is not there succeeds. */
typedef struct wn_DriverDestroyNetworkRequest {
  wn_string alloc_id;
} wn_DriverDestroyNetworkRequest;

/* DriverDestroyNetworkResponse is empty: nothing is left. */
typedef struct wn_DriverDestroyNetworkResponse {
  char empty; /* C has no empty structures */
} wn_DriverDestroyNetworkResponse;

/* Error is the answer of an operation or a capability that failed. */
typedef struct wn_Error {
  wn_ErrorCode code;
  /* One line for a person: what went wrong, where, and what to do. */
  wn_string message;
  /* True when trying the same thing again can help. A task start that failed
   * recoverably is retried under the task's restart policy. */
  bool recoverable;
} wn_Error;

/* ExecStreams are the streams of the command that a call of driver_exec_task is about. */
typedef struct wn_ExecStreams {
  /* What the command reads. Its end is the end of the command's input; an error means that
   * whoever asked for the command has gone. */
  uint32_t stdin_;
  /* What the command writes. With a terminal everything goes to stdout. */
  uint32_t stdout_;
  uint32_t stderr_;
  /* The terminal's later sizes: four bytes each, rows and then columns, 16 bits each, the
   * lower byte first. Of sizes that are not read yet only the latest is sure to come. */
  uint32_t sizes;
} wn_ExecStreams;

/* TlsOptions is how the other side of a connection is verified, and how it verifies this
 * one. */
typedef struct wn_TlsOptions {
  /* Whom the certificate has to name; empty: the host of the address. */
  wn_string server_name;
  /* Certificates to trust, PEM; empty: those that the node's system trusts. */
  wn_string roots_pem;
  /* The certificate to show and its key, PEM; empty: none. */
  wn_string certificate_pem;
  wn_string key_pem;
} wn_TlsOptions;

/* NetDialRequest asks for a connection, over TCP or to a unix socket of the node: either
 * address or socket is set. */
typedef struct wn_NetDialRequest {
  /* "HOST:PORT", HOST being a name or an IP address ("[::1]:80"). */
  wn_string address;
  /* An absolute path without links. Below the directory of the task that the call is about
   * it needs no grant. */
  wn_string socket;
  /* Unset: no TLS. */
  const wn_TlsOptions *tls;
  /* How long connecting may take, the lookup of a name and the handshake of TLS included;
   * 0: 10,000. It takes no longer than the call. */
  int64_t timeout_ms;
} wn_NetDialRequest;

/* NetDialResponse is a connection. */
typedef struct wn_NetDialResponse {
  uint32_t stream;
  /* "IP:PORT" that was dialled, or the socket's path. */
  wn_string remote;
} wn_NetDialResponse;

/* HttpHeader is one line of a header. */
typedef struct wn_HttpHeader {
  wn_string name;
  wn_string value;
} wn_HttpHeader;

/* HttpRequest is an HTTP/1.1 request. The node sends it as it is, or refuses it; it follows
 * no redirect and asks no proxy. */
typedef struct wn_HttpRequest {
  wn_string method;
  /* http or https, absolute, without user and fragment. Its path has no empty, "." or ".."
   * element, escaped or not. The Host header is the URL's host. */
  wn_string url;
  /* At most 256, 64 KiB in all. Those of one connection are the node's: Host is refused;
   * Connection and Upgrade pass where they ask for an upgrade; Connection, Content-Length,
   * Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding are left out otherwise. */
  const wn_HttpHeader *headers;
  uint32_t headers_count;
  /* The path of a unix socket to send it to, absolute and without links; the URL's host is
   * only for the Host header then. */
  wn_string socket;
  /* Of a URL with https. */
  const wn_TlsOptions *tls;
  /* The body, where it is not streamed. */
  wn_string body;
  /* The body is what is written to the stream, up to its shutdown. */
  bool streamed;
  /* The length of a streamed body; below 0: not known. */
  int64_t content_length;
} wn_HttpRequest;

/* HttpRequestResponse is an exchange that has begun. */
typedef struct wn_HttpRequestResponse {
  /* Writing is the body of the request if that is streamed, reading that of the response.
   * After an upgrade (status 101) both are the raw connection. Closing it ends the exchange. */
  uint32_t stream;
} wn_HttpRequestResponse;

/* HttpResponse is the head of a response. */
typedef struct wn_HttpResponse {
  uint32_t status;
  const wn_HttpHeader *headers;
  uint32_t headers_count;
  /* Below 0: not known. */
  int64_t content_length;
} wn_HttpResponse;

/* HttpTrailers are the headers after a body, once that was read to its end. */
typedef struct wn_HttpTrailers {
  const wn_HttpHeader *trailers;
  uint32_t trailers_count;
} wn_HttpTrailers;

/* KvGetRequest asks for a value. */
typedef struct wn_KvGetRequest {
  wn_string key;
} wn_KvGetRequest;

/* KvGetResponse is a value, or that there is none. */
typedef struct wn_KvGetResponse {
  wn_string value;
  /* It is another one after each change; 0: there is no value. */
  uint64_t version;
} wn_KvGetResponse;

/* KvSetRequest stores a value. It is durable when the answer comes. */
typedef struct wn_KvSetRequest {
  /* 1 to 256 bytes of UTF-8. */
  wn_string key;
  /* At most 64 KiB. */
  wn_string value;
  /* Only if this is the version that is there, 0 standing for none; unset: in any case. */
  bool has_version;
  uint64_t version;
} wn_KvSetRequest;

/* KvSetResponse is the version that the value has got. */
typedef struct wn_KvSetResponse {
  uint64_t version;
} wn_KvSetResponse;

/* KvDeleteRequest removes a value. That there is none is not an error. */
typedef struct wn_KvDeleteRequest {
  wn_string key;
  /* As in KvSetRequest. */
  bool has_version;
  uint64_t version;
} wn_KvDeleteRequest;

/* KvDeleteResponse is empty: there is no value. */
typedef struct wn_KvDeleteResponse {
  char empty; /* C has no empty structures */
} wn_KvDeleteResponse;

/* KvListRequest asks for the keys that begin with a prefix, in the order of their bytes. */
typedef struct wn_KvListRequest {
  wn_string prefix;
  /* Only those behind this one. */
  wn_string after;
  /* At most so many; 0: all. */
  uint32_t limit;
} wn_KvListRequest;

/* KvEntry is a key, with the version and the size of its value. */
typedef struct wn_KvEntry {
  wn_string key;
  uint64_t version;
  uint64_t size;
} wn_KvEntry;

/* KvListResponse is some keys. */
typedef struct wn_KvListResponse {
  const wn_KvEntry *entries;
  uint32_t entries_count;
  /* There are further ones. */
  bool more;
} wn_KvListResponse;

/* LogField is one key and value pair. */
typedef struct wn_LogField {
  wn_string key;
  wn_string value;
} wn_LogField;

/* LogFields are the key and value pairs of one log line. */
typedef struct wn_LogFields {
  const wn_LogField *fields;
  uint32_t fields_count;
} wn_LogFields;

/* ProcessLimit is a limit of setrlimit(2), at most as high as the node's own. */
typedef struct wn_ProcessLimit {
  /* "as", "cpu", "data", "fsize", "memlock", "nofile", "nproc" or "stack". */
  wn_string name;
  /* In the limit's own unit. The soft limit is no higher than the hard one. */
  uint64_t soft;
  uint64_t hard;
} wn_ProcessLimit;

/* ProcessPath is a file, or a directory with all below it. One that is not there when the
 * process starts stays out of reach. */
typedef struct wn_ProcessPath {
  /* An absolute path of the node's. */
  wn_string path;
  /* One or more of "r" (read, list), "w" (write), "c" (create, rename and remove) and "x"
   * (execute). */
  wn_string rights;
} wn_ProcessPath;

/* ProcessMount is a directory or file of the node's that a process sees in its root, or an
 * empty directory. */
typedef struct wn_ProcessMount {
  /* An absolute path of the node's, granted; or a path below the task's directory. At most
   * 4,095 bytes. Empty, with tmpfs. */
  wn_string source;
  /* Where it is in the root, at most 4,095 bytes. Links on the way stay in the root, and what
   * is missing is made. It is neither the root itself nor in /dev, /proc or /sys. */
  wn_string target;
  bool read_only;
  /* An empty directory that everybody may write to. What is in it ends with the process, and
   * counts as its memory. */
  bool tmpfs;
} wn_ProcessMount;

/* ProcessStartRequest asks for a process of the operating system as the workload
 * of the task that the current call is about. Its log files and its identity come
 * from the task, not from the plugin. It ends with all that it started. */
typedef struct wn_ProcessStartRequest {
  /* An absolute path; a path with a '/' below the task's directory, such as
   * "local/server"; or a bare name, which is looked for in the task's local
   * directory, in the task's directory and on the node's PATH. With full isolation
   * the paths are those of the task's root, which is the task's directory, and the
   * PATH is the one in env, if any command is granted. */
  wn_string command;
  /* The arguments after the command. */
  const wn_string *args;
  uint32_t args_count;
  /* The whole environment. */
  const wn_StringEntry *env;
  uint32_t env_count;
  /* The working directory: absolute, or below the task's directory; empty: that. With
   * full isolation it is in the task's root. */
  wn_string dir;
  /* A name or a number, or USER:GROUP; empty: the node's own user. */
  wn_string user;
  wn_ProcessIsolation isolation;
  /* With full isolation: Linux capabilities, such as "net_raw", that it has besides those of
   * every isolated process, each granted, and those that it does not have. "all" drops
   * every one that is not added. */
  const wn_string *add_capabilities;
  uint32_t add_capabilities_count;
  const wn_string *drop_capabilities;
  uint32_t drop_capabilities_count;
  /* Limits of its own, and of all that it starts. At most 16, one of a kind. */
  const wn_ProcessLimit *limits;
  uint32_t limits_count;
  /* From 0 to 1000: how much sooner than others it is killed when the node lacks memory. */
  int32_t oom_score_adj;
  /* A file below the task's directory that is its standard input; empty: that is empty. */
  wn_string stdin_;
  /* With PROCESS_ISOLATION_PATHS: the files that it may use besides those of its task. At most
   * 128. */
  const wn_ProcessPath *paths;
  uint32_t paths_count;
  /* Empty: it is the task's own workload, which the task ends with. Otherwise it stands beside
   * that under this name: lower-case letters, digits and '-', beginning with a letter, at most
   * 32. A task has 8 of them at most, each before its own workload is started or while that
   * runs. They are killed when that ends, and forgotten with it. Their output goes to log files
   * of their own beside the task's, as many and as large: TASK.stdout.NAME.0 and so on. With
   * full isolation all are held to the task's limits together. */
  wn_string name;
  /* With full isolation: the directory of an image that is its root in place of the task's
   * directory: an absolute path of the node's, or one below the task's directory. The image is
   * not changed: what is written to it, outside of mounts, ends with the process and counts as
   * its memory. /dev, /proc, /sys, and what every task has at /alloc, /local, /secrets and
   * /tmp is in it too, and /etc/hosts and /etc/resolv.conf as far as the node shows them.
   * Programs of the node's are not. */
  wn_string root;
  /* With full isolation: what it sees in its root besides, at most 1,024. One takes the place
   * of what every task has at its target. */
  const wn_ProcessMount *mounts;
  uint32_t mounts_count;
  /* The root can be read only. Mounts say so themselves. */
  bool read_only_root;
  /* Where it begins, and commands that are executed in it. */
  wn_ProcessNetwork network;
  /* With PROCESS_NETWORK_NAMESPACE: the absolute path of a network namespace, which is in a
   * directory that is granted, or that of the task's own network. */
  wn_string network_namespace;
  /* The only processors that it, all that it starts, and commands that are executed in it begin
   * on: numbers and ranges such as "0-3,6", of those in Resources.cpuset. At most 1,024 bytes.
   * Empty: the cores that the task has reserved; if it has none, all that the node may use. */
  wn_string cpuset;
} wn_ProcessStartRequest;

/* ProcessStartResponse is a process that runs. */
typedef struct wn_ProcessStartResponse {
  /* Belongs into TaskHandle.workload_id. */
  wn_string workload_id;
} wn_ProcessStartResponse;

/* ProcessSupportRequest asks what this node can do with processes. */
typedef struct wn_ProcessSupportRequest {
  char empty; /* C has no empty structures */
} wn_ProcessSupportRequest;

/* ProcessSupport is what this node can do with processes. */
typedef struct wn_ProcessSupport {
  /* Why it cannot give PROCESS_ISOLATION_FULL; empty: it can. */
  wn_string full_isolation_missing;
  /* Likewise for PROCESS_ISOLATION_PATHS. */
  wn_string path_isolation_missing;
} wn_ProcessSupport;

/* ProcessRunRequest asks for a helper: a program of the node's that runs to its end, in any
 * operation. Its environment and its user come from the grant; its working directory is "/". */
typedef struct wn_ProcessRunRequest {
  /* An absolute path. */
  wn_string command;
  /* The arguments after the command: 256 at most. */
  const wn_string *args;
  uint32_t args_count;
  /* Its standard input. */
  wn_string stdin_;
  /* How long it may run; 0: 10,000, at most 300,000. It runs no longer than the call. */
  int64_t timeout_ms;
  /* What it may use of memory, with all that it starts; 0: 256 MiB, at least 4 MiB, at most
   * 2 GiB. */
  uint64_t memory_max_bytes;
  /* How much of its standard output, and of its standard error, is answered; 0: 64 KiB, at
   * most 1 MiB. The rest is read and dropped. */
  uint64_t output_max_bytes;
} wn_ProcessRunRequest;

/* ProcessRunResponse is how a helper ended. */
typedef struct wn_ProcessRunResponse {
  /* 128 and the signal, where that ended it. */
  int32_t exit_code;
  int32_t signal;
  /* Something of it was killed for want of memory. */
  bool oom_killed;
  wn_string stdout_;
  wn_string stderr_;
  /* There was more of it. */
  bool stdout_cut;
  bool stderr_cut;
} wn_ProcessRunResponse;

/* StreamPollEntry is a stream and what is to be known of it. */
typedef struct wn_StreamPollEntry {
  uint32_t stream;
  /* The sum of what is waited for: STREAM_EVENT_READABLE, …_WRITABLE, …_RESPONSE. In an
   * answer: of what holds of these; …_ENDED comes beside …_READABLE. */
  uint32_t events;
} wn_StreamPollEntry;

/* StreamPollRequest waits until one of some streams can go on. */
typedef struct wn_StreamPollRequest {
  /* At most 256. A stream that is not open is NOT_FOUND. */
  const wn_StreamPollEntry *entries;
  uint32_t entries_count;
  /* 0: only look; below 0: as long as the call lasts. */
  int64_t timeout_ms;
} wn_StreamPollRequest;

/* StreamPollResponse lists the streams of which something holds, in the order of the
 * request; none: the time was over. */
typedef struct wn_StreamPollResponse {
  const wn_StreamPollEntry *entries;
  uint32_t entries_count;
} wn_StreamPollResponse;

/* WasmStartRequest asks for a WASI preview 1 program as the workload of the
 * task that the current call is about. Its log files, its identity and its
 * upper bounds come from the task, not from the plugin. */
typedef struct wn_WasmStartRequest {
  /* A path relative to the task's directory (such as "local/app.wasm"), or an
   * absolute one below a directory that the operator granted. */
  wn_string module;
  /* The program's arguments after its name. */
  const wn_string *args;
  uint32_t args_count;
  const wn_StringEntry *env;
  uint32_t env_count;
  /* Directories that the program sees. Host paths lie below the task's own
   * directories or below granted ones. */
  const wn_Mount *mounts;
  uint32_t mounts_count;
  /* At most the task's own memory limit; 0: that limit. */
  uint64_t memory_max_bytes;
  /* Labels of the task's ports that the program serves: each is a TCP listener on the
   * port's host address or, in a network of the group's own, on the port that it leads to
   * there. It is open when the program starts, with descriptors from 3 on, in this order.
   * At most 16. */
  const wn_string *listen;
  uint32_t listen_count;
  /* The program reads the numbers of its signals, a byte each, from the descriptor in
   * WASMNODE_SIGNAL_FD, instead of ending with the first. */
  bool signals;
  /* A file that is its standard input; paths are as for module. Empty: that is empty. */
  wn_string stdin_;
} wn_WasmStartRequest;

/* WasmStartResponse is a program that runs. */
typedef struct wn_WasmStartResponse {
  /* Belongs into TaskHandle.workload_id. */
  wn_string workload_id;
} wn_WasmStartResponse;

/* WorkloadSignalRequest has a workload of the task that the call is about receive a signal. */
typedef struct wn_WorkloadSignalRequest {
  /* Which, by the name that it was started with; empty: the task's own. */
  wn_string name;
  /* Such as "SIGHUP". */
  wn_string signal;
} wn_WorkloadSignalRequest;

/* WorkloadSignalResponse says that it was sent. */
typedef struct wn_WorkloadSignalResponse {
  char empty; /* C has no empty structures */
} wn_WorkloadSignalResponse;

/* WorkloadStopRequest has a workload end: by a signal and, when it has not ended in time, by
 * being killed. It is answered when it has ended. */
typedef struct wn_WorkloadStopRequest {
  /* As in WorkloadSignalRequest. */
  wn_string name;
  /* Empty: "SIGINT". */
  wn_string signal;
  /* The time that it has to end by itself: from 0, which kills at once, to 86,400,000. The
   * kill comes also when the call is over before. */
  int64_t timeout_ms;
} wn_WorkloadStopRequest;

/* WorkloadStopResponse says that it has ended. */
typedef struct wn_WorkloadStopResponse {
  char empty; /* C has no empty structures */
} wn_WorkloadStopResponse;

/* WorkloadWaitRequest waits for a workload's end. */
typedef struct wn_WorkloadWaitRequest {
  /* As in WorkloadSignalRequest. */
  wn_string name;
  /* How long; 0: not at all, -1: as long as the call may take. */
  int64_t timeout_ms;
} wn_WorkloadWaitRequest;

/* WorkloadWaitResponse is how it ended. */
typedef struct wn_WorkloadWaitResponse {
  /* Unset: it runs still. */
  const wn_ExitResult *result;
} wn_WorkloadWaitResponse;

/* WorkloadStatsRequest asks what a workload uses. */
typedef struct wn_WorkloadStatsRequest {
  /* As in WorkloadSignalRequest. */
  wn_string name;
} wn_WorkloadStatsRequest;

/* WorkloadStatsResponse is what it uses now. */
typedef struct wn_WorkloadStatsResponse {
  const wn_TaskStats *stats;
} wn_WorkloadStatsResponse;

/* WorkloadInspectRequest asks for a workload's state. */
typedef struct wn_WorkloadInspectRequest {
  /* As in WorkloadSignalRequest. */
  wn_string name;
} wn_WorkloadInspectRequest;

/* WorkloadInspectResponse is a workload's state and its times, in nanoseconds since the Unix
 * epoch. */
typedef struct wn_WorkloadInspectResponse {
  int64_t started_at_ns;
  /* 0: it runs. */
  int64_t exited_at_ns;
  /* Unset: it runs. */
  const wn_ExitResult *result;
} wn_WorkloadInspectResponse;

/* WorkloadExecRequest asks for a command in a workload that is a process: with its user, its
 * environment, its working directory, its isolation and its limits. It runs to its end. */
typedef struct wn_WorkloadExecRequest {
  /* As in WorkloadSignalRequest. */
  wn_string name;
  /* An absolute path as the workload sees it, which is granted as that of a process is. */
  wn_string command;
  /* The arguments after the command: 256 at most. */
  const wn_string *args;
  uint32_t args_count;
  /* Its standard input. */
  wn_string stdin_;
  /* How long it may run; 0: 10,000, at most 300,000. It runs no longer than the call. */
  int64_t timeout_ms;
  /* How much of its standard output, and of its standard error, is answered; 0: 64 KiB, at
   * most 1 MiB. The rest is read and dropped. */
  uint64_t output_max_bytes;
} wn_WorkloadExecRequest;

/* WorkloadExecResponse is how a command ended. */
typedef struct wn_WorkloadExecResponse {
  /* 128 and the signal, where that ended it. */
  int32_t exit_code;
  int32_t signal;
  wn_string stdout_;
  wn_string stderr_;
  /* There was more of it. */
  bool stdout_cut;
  bool stderr_cut;
} wn_WorkloadExecResponse;

static const wn_field wn_Attribute_fields[] = {
  {5, WN_STRING, WN_ONE, offsetof(wn_Attribute, unit), 0, 0},
  {1, WN_STRING, WN_CASE, offsetof(wn_Attribute, string_value), offsetof(wn_Attribute, value_case), 0},
  {2, WN_BOOL, WN_CASE, offsetof(wn_Attribute, bool_value), offsetof(wn_Attribute, value_case), 0},
  {3, WN_INT64, WN_CASE, offsetof(wn_Attribute, int_value), offsetof(wn_Attribute, value_case), 0},
  {4, WN_DOUBLE, WN_CASE, offsetof(wn_Attribute, float_value), offsetof(wn_Attribute, value_case), 0},
};
static const wn_message wn_Attribute_message = {wn_Attribute_fields, 5, sizeof(wn_Attribute)};

static const wn_field wn_DeviceDescribeRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceDescribeRequest, host_version), 0, 0},
};
static const wn_message wn_DeviceDescribeRequest_message = {wn_DeviceDescribeRequest_fields, 1, sizeof(wn_DeviceDescribeRequest)};

static const wn_field wn_DeviceDescribeResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceDescribeResponse, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DeviceDescribeResponse, version), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_DeviceDescribeResponse, plugin_config_schema), 0, 0},
  {4, WN_STRING, WN_MANY, offsetof(wn_DeviceDescribeResponse, optional_capabilities), offsetof(wn_DeviceDescribeResponse, optional_capabilities_count), 0},
};
static const wn_message wn_DeviceDescribeResponse_message = {wn_DeviceDescribeResponse_fields, 4, sizeof(wn_DeviceDescribeResponse)};

static const wn_field wn_DeviceConfigureRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceConfigureRequest, config), 0, 0},
};
static const wn_message wn_DeviceConfigureRequest_message = {wn_DeviceConfigureRequest_fields, 1, sizeof(wn_DeviceConfigureRequest)};

static const wn_message wn_DeviceConfigureResponse_message = {0, 0, sizeof(wn_DeviceConfigureResponse)};

static const wn_message wn_DeviceFingerprintRequest_message = {0, 0, sizeof(wn_DeviceFingerprintRequest)};

static const wn_field wn_DeviceGroupId_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceGroupId, vendor), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DeviceGroupId, type), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_DeviceGroupId, name), 0, 0},
};
static const wn_message wn_DeviceGroupId_message = {wn_DeviceGroupId_fields, 3, sizeof(wn_DeviceGroupId)};

static const wn_field wn_Device_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_Device, id), 0, 0},
  {2, WN_BOOL, WN_ONE, offsetof(wn_Device, healthy), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_Device, health_description), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_Device, pci_bus_id), 0, 0},
};
static const wn_message wn_Device_message = {wn_Device_fields, 4, sizeof(wn_Device)};

static const wn_field wn_AttributeEntry_fields[] = {
  {1, WN_STRING, WN_ALWAYS, offsetof(wn_AttributeEntry, key), 0, 0},
  {2, WN_MESSAGE, WN_ALWAYS, offsetof(wn_AttributeEntry, value), 0, &wn_Attribute_message},
};
static const wn_message wn_AttributeEntry_message = {wn_AttributeEntry_fields, 2, sizeof(wn_AttributeEntry)};

static const wn_field wn_DeviceGroup_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceGroup, id), 0, &wn_DeviceGroupId_message},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceGroup, devices), offsetof(wn_DeviceGroup, devices_count), &wn_Device_message},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceGroup, attributes), offsetof(wn_DeviceGroup, attributes_count), &wn_AttributeEntry_message},
};
static const wn_message wn_DeviceGroup_message = {wn_DeviceGroup_fields, 3, sizeof(wn_DeviceGroup)};

static const wn_field wn_DeviceFingerprintResponse_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceFingerprintResponse, groups), offsetof(wn_DeviceFingerprintResponse, groups_count), &wn_DeviceGroup_message},
  {2, WN_UINT32, WN_ONE, offsetof(wn_DeviceFingerprintResponse, next_poll_ms), 0, 0},
};
static const wn_message wn_DeviceFingerprintResponse_message = {wn_DeviceFingerprintResponse_fields, 2, sizeof(wn_DeviceFingerprintResponse)};

static const wn_field wn_DeviceUser_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceUser, alloc_id), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DeviceUser, task_name), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_DeviceUser, job_id), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_DeviceUser, task_group_name), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_DeviceUser, namespace), 0, 0},
};
static const wn_message wn_DeviceUser_message = {wn_DeviceUser_fields, 5, sizeof(wn_DeviceUser)};

static const wn_field wn_DeviceReserveRequest_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceReserveRequest, group), 0, &wn_DeviceGroupId_message},
  {2, WN_STRING, WN_MANY, offsetof(wn_DeviceReserveRequest, device_ids), offsetof(wn_DeviceReserveRequest, device_ids_count), 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceReserveRequest, user), 0, &wn_DeviceUser_message},
};
static const wn_message wn_DeviceReserveRequest_message = {wn_DeviceReserveRequest_fields, 3, sizeof(wn_DeviceReserveRequest)};

static const wn_field wn_EditedDeviceNode_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_EditedDeviceNode, path), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_EditedDeviceNode, host_path), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_EditedDeviceNode, permissions), 0, 0},
};
static const wn_message wn_EditedDeviceNode_message = {wn_EditedDeviceNode_fields, 3, sizeof(wn_EditedDeviceNode)};

static const wn_field wn_EditedMount_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_EditedMount, host_path), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_EditedMount, container_path), 0, 0},
  {3, WN_STRING, WN_MANY, offsetof(wn_EditedMount, options), offsetof(wn_EditedMount, options_count), 0},
};
static const wn_message wn_EditedMount_message = {wn_EditedMount_fields, 3, sizeof(wn_EditedMount)};

static const wn_field wn_EditedHook_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_EditedHook, hook_name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_EditedHook, path), 0, 0},
};
static const wn_message wn_EditedHook_message = {wn_EditedHook_fields, 2, sizeof(wn_EditedHook)};

static const wn_field wn_ContainerEdits_fields[] = {
  {1, WN_STRING, WN_MANY, offsetof(wn_ContainerEdits, env), offsetof(wn_ContainerEdits, env_count), 0},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_ContainerEdits, device_nodes), offsetof(wn_ContainerEdits, device_nodes_count), &wn_EditedDeviceNode_message},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_ContainerEdits, mounts), offsetof(wn_ContainerEdits, mounts_count), &wn_EditedMount_message},
  {4, WN_MESSAGE, WN_MANY, offsetof(wn_ContainerEdits, hooks), offsetof(wn_ContainerEdits, hooks_count), &wn_EditedHook_message},
};
static const wn_message wn_ContainerEdits_message = {wn_ContainerEdits_fields, 4, sizeof(wn_ContainerEdits)};

static const wn_field wn_DeviceReserveResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceReserveResponse, container_edits), 0, &wn_ContainerEdits_message},
};
static const wn_message wn_DeviceReserveResponse_message = {wn_DeviceReserveResponse_fields, 1, sizeof(wn_DeviceReserveResponse)};

static const wn_field wn_DeviceReleaseRequest_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceReleaseRequest, group), 0, &wn_DeviceGroupId_message},
  {2, WN_STRING, WN_MANY, offsetof(wn_DeviceReleaseRequest, device_ids), offsetof(wn_DeviceReleaseRequest, device_ids_count), 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceReleaseRequest, user), 0, &wn_DeviceUser_message},
};
static const wn_message wn_DeviceReleaseRequest_message = {wn_DeviceReleaseRequest_fields, 3, sizeof(wn_DeviceReleaseRequest)};

static const wn_message wn_DeviceReleaseResponse_message = {0, 0, sizeof(wn_DeviceReleaseResponse)};

static const wn_message wn_DeviceStatsRequest_message = {0, 0, sizeof(wn_DeviceStatsRequest)};

static const wn_field wn_StatValue_fields[] = {
  {7, WN_STRING, WN_ONE, offsetof(wn_StatValue, unit), 0, 0},
  {8, WN_STRING, WN_ONE, offsetof(wn_StatValue, description), 0, 0},
  {1, WN_DOUBLE, WN_CASE, offsetof(wn_StatValue, float_value), offsetof(wn_StatValue, value_case), 0},
  {2, WN_INT64, WN_CASE, offsetof(wn_StatValue, int_value), offsetof(wn_StatValue, value_case), 0},
  {3, WN_STRING, WN_CASE, offsetof(wn_StatValue, string_value), offsetof(wn_StatValue, value_case), 0},
  {4, WN_BOOL, WN_CASE, offsetof(wn_StatValue, bool_value), offsetof(wn_StatValue, value_case), 0},
  {5, WN_DOUBLE, WN_CASE, offsetof(wn_StatValue, float_denominator), offsetof(wn_StatValue, denominator_case), 0},
  {6, WN_INT64, WN_CASE, offsetof(wn_StatValue, int_denominator), offsetof(wn_StatValue, denominator_case), 0},
};
static const wn_message wn_StatValue_message = {wn_StatValue_fields, 8, sizeof(wn_StatValue)};

static const wn_field wn_DeviceStat_fields[] = {
  {1, WN_STRING, WN_MANY, offsetof(wn_DeviceStat, path), offsetof(wn_DeviceStat, path_count), 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceStat, value), 0, &wn_StatValue_message},
};
static const wn_message wn_DeviceStat_message = {wn_DeviceStat_fields, 2, sizeof(wn_DeviceStat)};

static const wn_field wn_DeviceStats_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceStats, summary), 0, &wn_StatValue_message},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceStats, stats), offsetof(wn_DeviceStats, stats_count), &wn_DeviceStat_message},
  {3, WN_INT64, WN_ONE, offsetof(wn_DeviceStats, time_ns), 0, 0},
};
static const wn_message wn_DeviceStats_message = {wn_DeviceStats_fields, 3, sizeof(wn_DeviceStats)};

static const wn_field wn_DeviceStatsEntry_fields[] = {
  {1, WN_STRING, WN_ALWAYS, offsetof(wn_DeviceStatsEntry, key), 0, 0},
  {2, WN_MESSAGE, WN_ALWAYS, offsetof(wn_DeviceStatsEntry, value), 0, &wn_DeviceStats_message},
};
static const wn_message wn_DeviceStatsEntry_message = {wn_DeviceStatsEntry_fields, 2, sizeof(wn_DeviceStatsEntry)};

static const wn_field wn_DeviceGroupStats_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DeviceGroupStats, id), 0, &wn_DeviceGroupId_message},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceGroupStats, devices), offsetof(wn_DeviceGroupStats, devices_count), &wn_DeviceStatsEntry_message},
};
static const wn_message wn_DeviceGroupStats_message = {wn_DeviceGroupStats_fields, 2, sizeof(wn_DeviceGroupStats)};

static const wn_field wn_DeviceStatsResponse_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_DeviceStatsResponse, groups), offsetof(wn_DeviceStatsResponse, groups_count), &wn_DeviceGroupStats_message},
  {2, WN_UINT32, WN_ONE, offsetof(wn_DeviceStatsResponse, next_poll_ms), 0, 0},
};
static const wn_message wn_DeviceStatsResponse_message = {wn_DeviceStatsResponse_fields, 2, sizeof(wn_DeviceStatsResponse)};

static const wn_field wn_StringEntry_fields[] = {
  {1, WN_STRING, WN_ALWAYS, offsetof(wn_StringEntry, key), 0, 0},
  {2, WN_STRING, WN_ALWAYS, offsetof(wn_StringEntry, value), 0, 0},
};
static const wn_message wn_StringEntry_message = {wn_StringEntry_fields, 2, sizeof(wn_StringEntry)};

static const wn_field wn_Resources_fields[] = {
  {1, WN_INT64, WN_ONE, offsetof(wn_Resources, cpu_mhz), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_Resources, memory_bytes), 0, 0},
  {3, WN_INT64, WN_ONE, offsetof(wn_Resources, memory_max_bytes), 0, 0},
  {4, WN_UINT32, WN_MANY, offsetof(wn_Resources, cores), offsetof(wn_Resources, cores_count), 0},
  {5, WN_UINT32, WN_ONE, offsetof(wn_Resources, cpu_thousandths), 0, 0},
  {6, WN_STRING, WN_ONE, offsetof(wn_Resources, cpuset), 0, 0},
};
static const wn_message wn_Resources_message = {wn_Resources_fields, 6, sizeof(wn_Resources)};

static const wn_field wn_TaskDirectories_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, alloc), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, shared), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, task), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, local), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, secrets), 0, 0},
  {6, WN_STRING, WN_ONE, offsetof(wn_TaskDirectories, logs), 0, 0},
};
static const wn_message wn_TaskDirectories_message = {wn_TaskDirectories_fields, 6, sizeof(wn_TaskDirectories)};

static const wn_field wn_Mount_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_Mount, task_path), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_Mount, host_path), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_Mount, read_only), 0, 0},
};
static const wn_message wn_Mount_message = {wn_Mount_fields, 3, sizeof(wn_Mount)};

static const wn_field wn_DeviceNode_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DeviceNode, task_path), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DeviceNode, host_path), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_DeviceNode, permissions), 0, 0},
};
static const wn_message wn_DeviceNode_message = {wn_DeviceNode_fields, 3, sizeof(wn_DeviceNode)};

static const wn_field wn_Port_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_Port, label), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_Port, host_ip), 0, 0},
  {3, WN_UINT32, WN_ONE, offsetof(wn_Port, host_port), 0, 0},
  {4, WN_UINT32, WN_ONE, offsetof(wn_Port, task_port), 0, 0},
};
static const wn_message wn_Port_message = {wn_Port_fields, 4, sizeof(wn_Port)};

static const wn_field wn_LogConfig_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_LogConfig, max_files), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_LogConfig, max_file_size_bytes), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_LogConfig, disabled), 0, 0},
};
static const wn_message wn_LogConfig_message = {wn_LogConfig_fields, 3, sizeof(wn_LogConfig)};

static const wn_field wn_TaskNetwork_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_TaskNetwork, mode), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TaskNetwork, namespace), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_TaskNetwork, interface), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_TaskNetwork, ip), 0, 0},
};
static const wn_message wn_TaskNetwork_message = {wn_TaskNetwork_fields, 4, sizeof(wn_TaskNetwork)};

static const wn_field wn_TaskConfig_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, id), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, name), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, alloc_id), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, job_name), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, job_id), 0, 0},
  {6, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, parent_job_id), 0, 0},
  {7, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, task_group_name), 0, 0},
  {8, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, namespace), 0, 0},
  {9, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, node_name), 0, 0},
  {10, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, node_id), 0, 0},
  {11, WN_MESSAGE, WN_MANY, offsetof(wn_TaskConfig, env), offsetof(wn_TaskConfig, env_count), &wn_StringEntry_message},
  {12, WN_MESSAGE, WN_MANY, offsetof(wn_TaskConfig, device_env), offsetof(wn_TaskConfig, device_env_count), &wn_StringEntry_message},
  {13, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, user), 0, 0},
  {14, WN_MESSAGE, WN_ONE, offsetof(wn_TaskConfig, resources), 0, &wn_Resources_message},
  {15, WN_MESSAGE, WN_ONE, offsetof(wn_TaskConfig, directories), 0, &wn_TaskDirectories_message},
  {16, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, stdout_path), 0, 0},
  {17, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, stderr_path), 0, 0},
  {18, WN_MESSAGE, WN_MANY, offsetof(wn_TaskConfig, mounts), offsetof(wn_TaskConfig, mounts_count), &wn_Mount_message},
  {19, WN_MESSAGE, WN_MANY, offsetof(wn_TaskConfig, devices), offsetof(wn_TaskConfig, devices_count), &wn_DeviceNode_message},
  {20, WN_MESSAGE, WN_MANY, offsetof(wn_TaskConfig, ports), offsetof(wn_TaskConfig, ports_count), &wn_Port_message},
  {21, WN_STRING, WN_ONE, offsetof(wn_TaskConfig, driver_config), 0, 0},
  {22, WN_MESSAGE, WN_ONE, offsetof(wn_TaskConfig, log), 0, &wn_LogConfig_message},
  {23, WN_MESSAGE, WN_ONE, offsetof(wn_TaskConfig, network), 0, &wn_TaskNetwork_message},
};
static const wn_message wn_TaskConfig_message = {wn_TaskConfig_fields, 23, sizeof(wn_TaskConfig)};

static const wn_field wn_TaskHandle_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_TaskHandle, version), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TaskHandle, driver_state), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_TaskHandle, workload_id), 0, 0},
};
static const wn_message wn_TaskHandle_message = {wn_TaskHandle_fields, 3, sizeof(wn_TaskHandle)};

static const wn_field wn_Uint32Entry_fields[] = {
  {1, WN_STRING, WN_ALWAYS, offsetof(wn_Uint32Entry, key), 0, 0},
  {2, WN_UINT32, WN_ALWAYS, offsetof(wn_Uint32Entry, value), 0, 0},
};
static const wn_message wn_Uint32Entry_message = {wn_Uint32Entry_fields, 2, sizeof(wn_Uint32Entry)};

static const wn_field wn_DriverNetwork_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverNetwork, ip), 0, 0},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_DriverNetwork, port_map), offsetof(wn_DriverNetwork, port_map_count), &wn_Uint32Entry_message},
  {3, WN_BOOL, WN_ONE, offsetof(wn_DriverNetwork, auto_advertise), 0, 0},
};
static const wn_message wn_DriverNetwork_message = {wn_DriverNetwork_fields, 3, sizeof(wn_DriverNetwork)};

static const wn_field wn_ExitResult_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_ExitResult, exit_code), 0, 0},
  {2, WN_INT32, WN_ONE, offsetof(wn_ExitResult, signal), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_ExitResult, oom_killed), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_ExitResult, error), 0, 0},
};
static const wn_message wn_ExitResult_message = {wn_ExitResult_fields, 4, sizeof(wn_ExitResult)};

static const wn_field wn_TaskStatus_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_TaskStatus, state), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_TaskStatus, started_at_ns), 0, 0},
  {3, WN_INT64, WN_ONE, offsetof(wn_TaskStatus, completed_at_ns), 0, 0},
  {4, WN_MESSAGE, WN_ONE, offsetof(wn_TaskStatus, exit_result), 0, &wn_ExitResult_message},
  {5, WN_MESSAGE, WN_MANY, offsetof(wn_TaskStatus, attributes), offsetof(wn_TaskStatus, attributes_count), &wn_StringEntry_message},
};
static const wn_message wn_TaskStatus_message = {wn_TaskStatus_fields, 5, sizeof(wn_TaskStatus)};

static const wn_field wn_TaskStats_fields[] = {
  {1, WN_INT64, WN_ONE, offsetof(wn_TaskStats, time_ns), 0, 0},
  {2, WN_INT64, WN_OPTIONAL, offsetof(wn_TaskStats, cpu_user_ns), offsetof(wn_TaskStats, has_cpu_user_ns), 0},
  {3, WN_INT64, WN_OPTIONAL, offsetof(wn_TaskStats, cpu_system_ns), offsetof(wn_TaskStats, has_cpu_system_ns), 0},
  {4, WN_INT64, WN_OPTIONAL, offsetof(wn_TaskStats, cpu_total_ns), offsetof(wn_TaskStats, has_cpu_total_ns), 0},
  {5, WN_INT64, WN_OPTIONAL, offsetof(wn_TaskStats, memory_rss_bytes), offsetof(wn_TaskStats, has_memory_rss_bytes), 0},
  {6, WN_INT64, WN_OPTIONAL, offsetof(wn_TaskStats, memory_max_bytes), offsetof(wn_TaskStats, has_memory_max_bytes), 0},
};
static const wn_message wn_TaskStats_message = {wn_TaskStats_fields, 6, sizeof(wn_TaskStats)};

static const wn_field wn_OutputMark_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_OutputMark, mark), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_OutputMark, bytes_since), 0, 0},
};
static const wn_message wn_OutputMark_message = {wn_OutputMark_fields, 2, sizeof(wn_OutputMark)};

static const wn_field wn_TaskEvent_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_TaskEvent, task_id), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TaskEvent, message), 0, 0},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_TaskEvent, annotations), offsetof(wn_TaskEvent, annotations_count), &wn_StringEntry_message},
};
static const wn_message wn_TaskEvent_message = {wn_TaskEvent_fields, 3, sizeof(wn_TaskEvent)};

static const wn_field wn_DriverDescribeRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverDescribeRequest, host_version), 0, 0},
};
static const wn_message wn_DriverDescribeRequest_message = {wn_DriverDescribeRequest_fields, 1, sizeof(wn_DriverDescribeRequest)};

static const wn_field wn_DriverCapabilities_fields[] = {
  {1, WN_BOOL, WN_ONE, offsetof(wn_DriverCapabilities, send_signals), 0, 0},
  {2, WN_BOOL, WN_ONE, offsetof(wn_DriverCapabilities, exec), 0, 0},
  {3, WN_INT32, WN_ONE, offsetof(wn_DriverCapabilities, filesystem_isolation), 0, 0},
  {4, WN_BOOL, WN_ONE, offsetof(wn_DriverCapabilities, network_namespaces), 0, 0},
  {5, WN_BOOL, WN_ONE, offsetof(wn_DriverCapabilities, creates_networks), 0, 0},
};
static const wn_message wn_DriverCapabilities_message = {wn_DriverCapabilities_fields, 5, sizeof(wn_DriverCapabilities)};

static const wn_field wn_DriverDescribeResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverDescribeResponse, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DriverDescribeResponse, version), 0, 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_DriverDescribeResponse, capabilities), 0, &wn_DriverCapabilities_message},
  {4, WN_STRING, WN_ONE, offsetof(wn_DriverDescribeResponse, plugin_config_schema), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_DriverDescribeResponse, task_config_schema), 0, 0},
  {6, WN_STRING, WN_MANY, offsetof(wn_DriverDescribeResponse, optional_capabilities), offsetof(wn_DriverDescribeResponse, optional_capabilities_count), 0},
};
static const wn_message wn_DriverDescribeResponse_message = {wn_DriverDescribeResponse_fields, 6, sizeof(wn_DriverDescribeResponse)};

static const wn_field wn_DriverConfigureRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverConfigureRequest, config), 0, 0},
};
static const wn_message wn_DriverConfigureRequest_message = {wn_DriverConfigureRequest_fields, 1, sizeof(wn_DriverConfigureRequest)};

static const wn_message wn_DriverConfigureResponse_message = {0, 0, sizeof(wn_DriverConfigureResponse)};

static const wn_message wn_DriverFingerprintRequest_message = {0, 0, sizeof(wn_DriverFingerprintRequest)};

static const wn_field wn_DriverFingerprintResponse_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_DriverFingerprintResponse, health), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DriverFingerprintResponse, description), 0, 0},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_DriverFingerprintResponse, attributes), offsetof(wn_DriverFingerprintResponse, attributes_count), &wn_AttributeEntry_message},
  {4, WN_UINT32, WN_ONE, offsetof(wn_DriverFingerprintResponse, next_poll_ms), 0, 0},
};
static const wn_message wn_DriverFingerprintResponse_message = {wn_DriverFingerprintResponse_fields, 4, sizeof(wn_DriverFingerprintResponse)};

static const wn_field wn_DriverStartTaskRequest_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverStartTaskRequest, task), 0, &wn_TaskConfig_message},
};
static const wn_message wn_DriverStartTaskRequest_message = {wn_DriverStartTaskRequest_fields, 1, sizeof(wn_DriverStartTaskRequest)};

static const wn_field wn_DriverStartTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverStartTaskResponse, handle), 0, &wn_TaskHandle_message},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverStartTaskResponse, network), 0, &wn_DriverNetwork_message},
};
static const wn_message wn_DriverStartTaskResponse_message = {wn_DriverStartTaskResponse_fields, 2, sizeof(wn_DriverStartTaskResponse)};

static const wn_field wn_DriverRecoverTaskRequest_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverRecoverTaskRequest, task), 0, &wn_TaskConfig_message},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverRecoverTaskRequest, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverRecoverTaskRequest_message = {wn_DriverRecoverTaskRequest_fields, 2, sizeof(wn_DriverRecoverTaskRequest)};

static const wn_field wn_DriverRecoverTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverRecoverTaskResponse, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverRecoverTaskResponse_message = {wn_DriverRecoverTaskResponse_fields, 1, sizeof(wn_DriverRecoverTaskResponse)};

static const wn_field wn_DriverWaitTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverWaitTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverWaitTaskRequest, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverWaitTaskRequest_message = {wn_DriverWaitTaskRequest_fields, 2, sizeof(wn_DriverWaitTaskRequest)};

static const wn_field wn_DriverWaitTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverWaitTaskResponse, result), 0, &wn_ExitResult_message},
  {2, WN_UINT32, WN_ONE, offsetof(wn_DriverWaitTaskResponse, poll_after_ms), 0, 0},
};
static const wn_message wn_DriverWaitTaskResponse_message = {wn_DriverWaitTaskResponse_fields, 2, sizeof(wn_DriverWaitTaskResponse)};

static const wn_field wn_DriverStopTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverStopTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverStopTaskRequest, handle), 0, &wn_TaskHandle_message},
  {3, WN_INT64, WN_ONE, offsetof(wn_DriverStopTaskRequest, timeout_ms), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_DriverStopTaskRequest, signal), 0, 0},
};
static const wn_message wn_DriverStopTaskRequest_message = {wn_DriverStopTaskRequest_fields, 4, sizeof(wn_DriverStopTaskRequest)};

static const wn_field wn_DriverStopTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverStopTaskResponse, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverStopTaskResponse_message = {wn_DriverStopTaskResponse_fields, 1, sizeof(wn_DriverStopTaskResponse)};

static const wn_field wn_DriverSignalTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverSignalTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverSignalTaskRequest, handle), 0, &wn_TaskHandle_message},
  {3, WN_STRING, WN_ONE, offsetof(wn_DriverSignalTaskRequest, signal), 0, 0},
};
static const wn_message wn_DriverSignalTaskRequest_message = {wn_DriverSignalTaskRequest_fields, 3, sizeof(wn_DriverSignalTaskRequest)};

static const wn_field wn_DriverSignalTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverSignalTaskResponse, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverSignalTaskResponse_message = {wn_DriverSignalTaskResponse_fields, 1, sizeof(wn_DriverSignalTaskResponse)};

static const wn_field wn_DriverDestroyTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverDestroyTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverDestroyTaskRequest, handle), 0, &wn_TaskHandle_message},
  {3, WN_BOOL, WN_ONE, offsetof(wn_DriverDestroyTaskRequest, force), 0, 0},
};
static const wn_message wn_DriverDestroyTaskRequest_message = {wn_DriverDestroyTaskRequest_fields, 3, sizeof(wn_DriverDestroyTaskRequest)};

static const wn_message wn_DriverDestroyTaskResponse_message = {0, 0, sizeof(wn_DriverDestroyTaskResponse)};

static const wn_field wn_DriverInspectTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverInspectTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverInspectTaskRequest, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverInspectTaskRequest_message = {wn_DriverInspectTaskRequest_fields, 2, sizeof(wn_DriverInspectTaskRequest)};

static const wn_field wn_DriverInspectTaskResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverInspectTaskResponse, status), 0, &wn_TaskStatus_message},
};
static const wn_message wn_DriverInspectTaskResponse_message = {wn_DriverInspectTaskResponse_fields, 1, sizeof(wn_DriverInspectTaskResponse)};

static const wn_field wn_DriverTaskStatsRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverTaskStatsRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverTaskStatsRequest, handle), 0, &wn_TaskHandle_message},
};
static const wn_message wn_DriverTaskStatsRequest_message = {wn_DriverTaskStatsRequest_fields, 2, sizeof(wn_DriverTaskStatsRequest)};

static const wn_field wn_DriverTaskStatsResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_DriverTaskStatsResponse, stats), 0, &wn_TaskStats_message},
};
static const wn_message wn_DriverTaskStatsResponse_message = {wn_DriverTaskStatsResponse_fields, 1, sizeof(wn_DriverTaskStatsResponse)};

static const wn_field wn_TerminalSize_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_TerminalSize, rows), 0, 0},
  {2, WN_UINT32, WN_ONE, offsetof(wn_TerminalSize, columns), 0, 0},
};
static const wn_message wn_TerminalSize_message = {wn_TerminalSize_fields, 2, sizeof(wn_TerminalSize)};

static const wn_field wn_DriverExecTaskRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverExecTaskRequest, task_id), 0, 0},
  {2, WN_MESSAGE, WN_ONE, offsetof(wn_DriverExecTaskRequest, handle), 0, &wn_TaskHandle_message},
  {3, WN_STRING, WN_MANY, offsetof(wn_DriverExecTaskRequest, command), offsetof(wn_DriverExecTaskRequest, command_count), 0},
  {4, WN_INT64, WN_ONE, offsetof(wn_DriverExecTaskRequest, timeout_ms), 0, 0},
  {5, WN_BOOL, WN_ONE, offsetof(wn_DriverExecTaskRequest, tty), 0, 0},
  {6, WN_MESSAGE, WN_ONE, offsetof(wn_DriverExecTaskRequest, size), 0, &wn_TerminalSize_message},
};
static const wn_message wn_DriverExecTaskRequest_message = {wn_DriverExecTaskRequest_fields, 6, sizeof(wn_DriverExecTaskRequest)};

static const wn_field wn_DriverExecTaskResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverExecTaskResponse, stdout_), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DriverExecTaskResponse, stderr_), 0, 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_DriverExecTaskResponse, result), 0, &wn_ExitResult_message},
};
static const wn_message wn_DriverExecTaskResponse_message = {wn_DriverExecTaskResponse_fields, 3, sizeof(wn_DriverExecTaskResponse)};

static const wn_field wn_DriverCreateNetworkRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverCreateNetworkRequest, alloc_id), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_DriverCreateNetworkRequest, hostname), 0, 0},
};
static const wn_message wn_DriverCreateNetworkRequest_message = {wn_DriverCreateNetworkRequest_fields, 2, sizeof(wn_DriverCreateNetworkRequest)};

static const wn_field wn_DriverCreateNetworkResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverCreateNetworkResponse, namespace), 0, 0},
};
static const wn_message wn_DriverCreateNetworkResponse_message = {wn_DriverCreateNetworkResponse_fields, 1, sizeof(wn_DriverCreateNetworkResponse)};

static const wn_field wn_DriverDestroyNetworkRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_DriverDestroyNetworkRequest, alloc_id), 0, 0},
};
static const wn_message wn_DriverDestroyNetworkRequest_message = {wn_DriverDestroyNetworkRequest_fields, 1, sizeof(wn_DriverDestroyNetworkRequest)};

static const wn_message wn_DriverDestroyNetworkResponse_message = {0, 0, sizeof(wn_DriverDestroyNetworkResponse)};

static const wn_field wn_Error_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_Error, code), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_Error, message), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_Error, recoverable), 0, 0},
};
static const wn_message wn_Error_message = {wn_Error_fields, 3, sizeof(wn_Error)};

static const wn_field wn_ExecStreams_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_ExecStreams, stdin_), 0, 0},
  {2, WN_UINT32, WN_ONE, offsetof(wn_ExecStreams, stdout_), 0, 0},
  {3, WN_UINT32, WN_ONE, offsetof(wn_ExecStreams, stderr_), 0, 0},
  {4, WN_UINT32, WN_ONE, offsetof(wn_ExecStreams, sizes), 0, 0},
};
static const wn_message wn_ExecStreams_message = {wn_ExecStreams_fields, 4, sizeof(wn_ExecStreams)};

static const wn_field wn_TlsOptions_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_TlsOptions, server_name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_TlsOptions, roots_pem), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_TlsOptions, certificate_pem), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_TlsOptions, key_pem), 0, 0},
};
static const wn_message wn_TlsOptions_message = {wn_TlsOptions_fields, 4, sizeof(wn_TlsOptions)};

static const wn_field wn_NetDialRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_NetDialRequest, address), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_NetDialRequest, socket), 0, 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_NetDialRequest, tls), 0, &wn_TlsOptions_message},
  {4, WN_INT64, WN_ONE, offsetof(wn_NetDialRequest, timeout_ms), 0, 0},
};
static const wn_message wn_NetDialRequest_message = {wn_NetDialRequest_fields, 4, sizeof(wn_NetDialRequest)};

static const wn_field wn_NetDialResponse_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_NetDialResponse, stream), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_NetDialResponse, remote), 0, 0},
};
static const wn_message wn_NetDialResponse_message = {wn_NetDialResponse_fields, 2, sizeof(wn_NetDialResponse)};

static const wn_field wn_HttpHeader_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_HttpHeader, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_HttpHeader, value), 0, 0},
};
static const wn_message wn_HttpHeader_message = {wn_HttpHeader_fields, 2, sizeof(wn_HttpHeader)};

static const wn_field wn_HttpRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_HttpRequest, method), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_HttpRequest, url), 0, 0},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_HttpRequest, headers), offsetof(wn_HttpRequest, headers_count), &wn_HttpHeader_message},
  {4, WN_STRING, WN_ONE, offsetof(wn_HttpRequest, socket), 0, 0},
  {5, WN_MESSAGE, WN_ONE, offsetof(wn_HttpRequest, tls), 0, &wn_TlsOptions_message},
  {6, WN_STRING, WN_ONE, offsetof(wn_HttpRequest, body), 0, 0},
  {7, WN_BOOL, WN_ONE, offsetof(wn_HttpRequest, streamed), 0, 0},
  {8, WN_INT64, WN_ONE, offsetof(wn_HttpRequest, content_length), 0, 0},
};
static const wn_message wn_HttpRequest_message = {wn_HttpRequest_fields, 8, sizeof(wn_HttpRequest)};

static const wn_field wn_HttpRequestResponse_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_HttpRequestResponse, stream), 0, 0},
};
static const wn_message wn_HttpRequestResponse_message = {wn_HttpRequestResponse_fields, 1, sizeof(wn_HttpRequestResponse)};

static const wn_field wn_HttpResponse_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_HttpResponse, status), 0, 0},
  {2, WN_MESSAGE, WN_MANY, offsetof(wn_HttpResponse, headers), offsetof(wn_HttpResponse, headers_count), &wn_HttpHeader_message},
  {3, WN_INT64, WN_ONE, offsetof(wn_HttpResponse, content_length), 0, 0},
};
static const wn_message wn_HttpResponse_message = {wn_HttpResponse_fields, 3, sizeof(wn_HttpResponse)};

static const wn_field wn_HttpTrailers_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_HttpTrailers, trailers), offsetof(wn_HttpTrailers, trailers_count), &wn_HttpHeader_message},
};
static const wn_message wn_HttpTrailers_message = {wn_HttpTrailers_fields, 1, sizeof(wn_HttpTrailers)};

static const wn_field wn_KvGetRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvGetRequest, key), 0, 0},
};
static const wn_message wn_KvGetRequest_message = {wn_KvGetRequest_fields, 1, sizeof(wn_KvGetRequest)};

static const wn_field wn_KvGetResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvGetResponse, value), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_KvGetResponse, version), 0, 0},
};
static const wn_message wn_KvGetResponse_message = {wn_KvGetResponse_fields, 2, sizeof(wn_KvGetResponse)};

static const wn_field wn_KvSetRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvSetRequest, key), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_KvSetRequest, value), 0, 0},
  {3, WN_INT64, WN_OPTIONAL, offsetof(wn_KvSetRequest, version), offsetof(wn_KvSetRequest, has_version), 0},
};
static const wn_message wn_KvSetRequest_message = {wn_KvSetRequest_fields, 3, sizeof(wn_KvSetRequest)};

static const wn_field wn_KvSetResponse_fields[] = {
  {1, WN_INT64, WN_ONE, offsetof(wn_KvSetResponse, version), 0, 0},
};
static const wn_message wn_KvSetResponse_message = {wn_KvSetResponse_fields, 1, sizeof(wn_KvSetResponse)};

static const wn_field wn_KvDeleteRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvDeleteRequest, key), 0, 0},
  {2, WN_INT64, WN_OPTIONAL, offsetof(wn_KvDeleteRequest, version), offsetof(wn_KvDeleteRequest, has_version), 0},
};
static const wn_message wn_KvDeleteRequest_message = {wn_KvDeleteRequest_fields, 2, sizeof(wn_KvDeleteRequest)};

static const wn_message wn_KvDeleteResponse_message = {0, 0, sizeof(wn_KvDeleteResponse)};

static const wn_field wn_KvListRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvListRequest, prefix), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_KvListRequest, after), 0, 0},
  {3, WN_UINT32, WN_ONE, offsetof(wn_KvListRequest, limit), 0, 0},
};
static const wn_message wn_KvListRequest_message = {wn_KvListRequest_fields, 3, sizeof(wn_KvListRequest)};

static const wn_field wn_KvEntry_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_KvEntry, key), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_KvEntry, version), 0, 0},
  {3, WN_INT64, WN_ONE, offsetof(wn_KvEntry, size), 0, 0},
};
static const wn_message wn_KvEntry_message = {wn_KvEntry_fields, 3, sizeof(wn_KvEntry)};

static const wn_field wn_KvListResponse_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_KvListResponse, entries), offsetof(wn_KvListResponse, entries_count), &wn_KvEntry_message},
  {2, WN_BOOL, WN_ONE, offsetof(wn_KvListResponse, more), 0, 0},
};
static const wn_message wn_KvListResponse_message = {wn_KvListResponse_fields, 2, sizeof(wn_KvListResponse)};

static const wn_field wn_LogField_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_LogField, key), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_LogField, value), 0, 0},
};
static const wn_message wn_LogField_message = {wn_LogField_fields, 2, sizeof(wn_LogField)};

static const wn_field wn_LogFields_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_LogFields, fields), offsetof(wn_LogFields, fields_count), &wn_LogField_message},
};
static const wn_message wn_LogFields_message = {wn_LogFields_fields, 1, sizeof(wn_LogFields)};

static const wn_field wn_ProcessLimit_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessLimit, name), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_ProcessLimit, soft), 0, 0},
  {3, WN_INT64, WN_ONE, offsetof(wn_ProcessLimit, hard), 0, 0},
};
static const wn_message wn_ProcessLimit_message = {wn_ProcessLimit_fields, 3, sizeof(wn_ProcessLimit)};

static const wn_field wn_ProcessPath_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessPath, path), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_ProcessPath, rights), 0, 0},
};
static const wn_message wn_ProcessPath_message = {wn_ProcessPath_fields, 2, sizeof(wn_ProcessPath)};

static const wn_field wn_ProcessMount_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessMount, source), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_ProcessMount, target), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_ProcessMount, read_only), 0, 0},
  {4, WN_BOOL, WN_ONE, offsetof(wn_ProcessMount, tmpfs), 0, 0},
};
static const wn_message wn_ProcessMount_message = {wn_ProcessMount_fields, 4, sizeof(wn_ProcessMount)};

static const wn_field wn_ProcessStartRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, command), 0, 0},
  {2, WN_STRING, WN_MANY, offsetof(wn_ProcessStartRequest, args), offsetof(wn_ProcessStartRequest, args_count), 0},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_ProcessStartRequest, env), offsetof(wn_ProcessStartRequest, env_count), &wn_StringEntry_message},
  {4, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, dir), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, user), 0, 0},
  {6, WN_INT32, WN_ONE, offsetof(wn_ProcessStartRequest, isolation), 0, 0},
  {7, WN_STRING, WN_MANY, offsetof(wn_ProcessStartRequest, add_capabilities), offsetof(wn_ProcessStartRequest, add_capabilities_count), 0},
  {8, WN_STRING, WN_MANY, offsetof(wn_ProcessStartRequest, drop_capabilities), offsetof(wn_ProcessStartRequest, drop_capabilities_count), 0},
  {9, WN_MESSAGE, WN_MANY, offsetof(wn_ProcessStartRequest, limits), offsetof(wn_ProcessStartRequest, limits_count), &wn_ProcessLimit_message},
  {10, WN_INT32, WN_ONE, offsetof(wn_ProcessStartRequest, oom_score_adj), 0, 0},
  {11, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, stdin_), 0, 0},
  {12, WN_MESSAGE, WN_MANY, offsetof(wn_ProcessStartRequest, paths), offsetof(wn_ProcessStartRequest, paths_count), &wn_ProcessPath_message},
  {40, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, name), 0, 0},
  {50, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, root), 0, 0},
  {51, WN_MESSAGE, WN_MANY, offsetof(wn_ProcessStartRequest, mounts), offsetof(wn_ProcessStartRequest, mounts_count), &wn_ProcessMount_message},
  {52, WN_BOOL, WN_ONE, offsetof(wn_ProcessStartRequest, read_only_root), 0, 0},
  {60, WN_INT32, WN_ONE, offsetof(wn_ProcessStartRequest, network), 0, 0},
  {61, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, network_namespace), 0, 0},
  {62, WN_STRING, WN_ONE, offsetof(wn_ProcessStartRequest, cpuset), 0, 0},
};
static const wn_message wn_ProcessStartRequest_message = {wn_ProcessStartRequest_fields, 19, sizeof(wn_ProcessStartRequest)};

static const wn_field wn_ProcessStartResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessStartResponse, workload_id), 0, 0},
};
static const wn_message wn_ProcessStartResponse_message = {wn_ProcessStartResponse_fields, 1, sizeof(wn_ProcessStartResponse)};

static const wn_message wn_ProcessSupportRequest_message = {0, 0, sizeof(wn_ProcessSupportRequest)};

static const wn_field wn_ProcessSupport_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessSupport, full_isolation_missing), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_ProcessSupport, path_isolation_missing), 0, 0},
};
static const wn_message wn_ProcessSupport_message = {wn_ProcessSupport_fields, 2, sizeof(wn_ProcessSupport)};

static const wn_field wn_ProcessRunRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_ProcessRunRequest, command), 0, 0},
  {2, WN_STRING, WN_MANY, offsetof(wn_ProcessRunRequest, args), offsetof(wn_ProcessRunRequest, args_count), 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_ProcessRunRequest, stdin_), 0, 0},
  {4, WN_INT64, WN_ONE, offsetof(wn_ProcessRunRequest, timeout_ms), 0, 0},
  {5, WN_INT64, WN_ONE, offsetof(wn_ProcessRunRequest, memory_max_bytes), 0, 0},
  {6, WN_INT64, WN_ONE, offsetof(wn_ProcessRunRequest, output_max_bytes), 0, 0},
};
static const wn_message wn_ProcessRunRequest_message = {wn_ProcessRunRequest_fields, 6, sizeof(wn_ProcessRunRequest)};

static const wn_field wn_ProcessRunResponse_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_ProcessRunResponse, exit_code), 0, 0},
  {2, WN_INT32, WN_ONE, offsetof(wn_ProcessRunResponse, signal), 0, 0},
  {3, WN_BOOL, WN_ONE, offsetof(wn_ProcessRunResponse, oom_killed), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_ProcessRunResponse, stdout_), 0, 0},
  {5, WN_STRING, WN_ONE, offsetof(wn_ProcessRunResponse, stderr_), 0, 0},
  {6, WN_BOOL, WN_ONE, offsetof(wn_ProcessRunResponse, stdout_cut), 0, 0},
  {7, WN_BOOL, WN_ONE, offsetof(wn_ProcessRunResponse, stderr_cut), 0, 0},
};
static const wn_message wn_ProcessRunResponse_message = {wn_ProcessRunResponse_fields, 7, sizeof(wn_ProcessRunResponse)};

static const wn_field wn_StreamPollEntry_fields[] = {
  {1, WN_UINT32, WN_ONE, offsetof(wn_StreamPollEntry, stream), 0, 0},
  {2, WN_UINT32, WN_ONE, offsetof(wn_StreamPollEntry, events), 0, 0},
};
static const wn_message wn_StreamPollEntry_message = {wn_StreamPollEntry_fields, 2, sizeof(wn_StreamPollEntry)};

static const wn_field wn_StreamPollRequest_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_StreamPollRequest, entries), offsetof(wn_StreamPollRequest, entries_count), &wn_StreamPollEntry_message},
  {2, WN_INT64, WN_ONE, offsetof(wn_StreamPollRequest, timeout_ms), 0, 0},
};
static const wn_message wn_StreamPollRequest_message = {wn_StreamPollRequest_fields, 2, sizeof(wn_StreamPollRequest)};

static const wn_field wn_StreamPollResponse_fields[] = {
  {1, WN_MESSAGE, WN_MANY, offsetof(wn_StreamPollResponse, entries), offsetof(wn_StreamPollResponse, entries_count), &wn_StreamPollEntry_message},
};
static const wn_message wn_StreamPollResponse_message = {wn_StreamPollResponse_fields, 1, sizeof(wn_StreamPollResponse)};

static const wn_field wn_WasmStartRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WasmStartRequest, module), 0, 0},
  {2, WN_STRING, WN_MANY, offsetof(wn_WasmStartRequest, args), offsetof(wn_WasmStartRequest, args_count), 0},
  {3, WN_MESSAGE, WN_MANY, offsetof(wn_WasmStartRequest, env), offsetof(wn_WasmStartRequest, env_count), &wn_StringEntry_message},
  {4, WN_MESSAGE, WN_MANY, offsetof(wn_WasmStartRequest, mounts), offsetof(wn_WasmStartRequest, mounts_count), &wn_Mount_message},
  {5, WN_INT64, WN_ONE, offsetof(wn_WasmStartRequest, memory_max_bytes), 0, 0},
  {6, WN_STRING, WN_MANY, offsetof(wn_WasmStartRequest, listen), offsetof(wn_WasmStartRequest, listen_count), 0},
  {7, WN_BOOL, WN_ONE, offsetof(wn_WasmStartRequest, signals), 0, 0},
  {8, WN_STRING, WN_ONE, offsetof(wn_WasmStartRequest, stdin_), 0, 0},
};
static const wn_message wn_WasmStartRequest_message = {wn_WasmStartRequest_fields, 8, sizeof(wn_WasmStartRequest)};

static const wn_field wn_WasmStartResponse_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WasmStartResponse, workload_id), 0, 0},
};
static const wn_message wn_WasmStartResponse_message = {wn_WasmStartResponse_fields, 1, sizeof(wn_WasmStartResponse)};

static const wn_field wn_WorkloadSignalRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadSignalRequest, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_WorkloadSignalRequest, signal), 0, 0},
};
static const wn_message wn_WorkloadSignalRequest_message = {wn_WorkloadSignalRequest_fields, 2, sizeof(wn_WorkloadSignalRequest)};

static const wn_message wn_WorkloadSignalResponse_message = {0, 0, sizeof(wn_WorkloadSignalResponse)};

static const wn_field wn_WorkloadStopRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadStopRequest, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_WorkloadStopRequest, signal), 0, 0},
  {3, WN_INT64, WN_ONE, offsetof(wn_WorkloadStopRequest, timeout_ms), 0, 0},
};
static const wn_message wn_WorkloadStopRequest_message = {wn_WorkloadStopRequest_fields, 3, sizeof(wn_WorkloadStopRequest)};

static const wn_message wn_WorkloadStopResponse_message = {0, 0, sizeof(wn_WorkloadStopResponse)};

static const wn_field wn_WorkloadWaitRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadWaitRequest, name), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_WorkloadWaitRequest, timeout_ms), 0, 0},
};
static const wn_message wn_WorkloadWaitRequest_message = {wn_WorkloadWaitRequest_fields, 2, sizeof(wn_WorkloadWaitRequest)};

static const wn_field wn_WorkloadWaitResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_WorkloadWaitResponse, result), 0, &wn_ExitResult_message},
};
static const wn_message wn_WorkloadWaitResponse_message = {wn_WorkloadWaitResponse_fields, 1, sizeof(wn_WorkloadWaitResponse)};

static const wn_field wn_WorkloadStatsRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadStatsRequest, name), 0, 0},
};
static const wn_message wn_WorkloadStatsRequest_message = {wn_WorkloadStatsRequest_fields, 1, sizeof(wn_WorkloadStatsRequest)};

static const wn_field wn_WorkloadStatsResponse_fields[] = {
  {1, WN_MESSAGE, WN_ONE, offsetof(wn_WorkloadStatsResponse, stats), 0, &wn_TaskStats_message},
};
static const wn_message wn_WorkloadStatsResponse_message = {wn_WorkloadStatsResponse_fields, 1, sizeof(wn_WorkloadStatsResponse)};

static const wn_field wn_WorkloadInspectRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadInspectRequest, name), 0, 0},
};
static const wn_message wn_WorkloadInspectRequest_message = {wn_WorkloadInspectRequest_fields, 1, sizeof(wn_WorkloadInspectRequest)};

static const wn_field wn_WorkloadInspectResponse_fields[] = {
  {1, WN_INT64, WN_ONE, offsetof(wn_WorkloadInspectResponse, started_at_ns), 0, 0},
  {2, WN_INT64, WN_ONE, offsetof(wn_WorkloadInspectResponse, exited_at_ns), 0, 0},
  {3, WN_MESSAGE, WN_ONE, offsetof(wn_WorkloadInspectResponse, result), 0, &wn_ExitResult_message},
};
static const wn_message wn_WorkloadInspectResponse_message = {wn_WorkloadInspectResponse_fields, 3, sizeof(wn_WorkloadInspectResponse)};

static const wn_field wn_WorkloadExecRequest_fields[] = {
  {1, WN_STRING, WN_ONE, offsetof(wn_WorkloadExecRequest, name), 0, 0},
  {2, WN_STRING, WN_ONE, offsetof(wn_WorkloadExecRequest, command), 0, 0},
  {3, WN_STRING, WN_MANY, offsetof(wn_WorkloadExecRequest, args), offsetof(wn_WorkloadExecRequest, args_count), 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_WorkloadExecRequest, stdin_), 0, 0},
  {5, WN_INT64, WN_ONE, offsetof(wn_WorkloadExecRequest, timeout_ms), 0, 0},
  {6, WN_INT64, WN_ONE, offsetof(wn_WorkloadExecRequest, output_max_bytes), 0, 0},
};
static const wn_message wn_WorkloadExecRequest_message = {wn_WorkloadExecRequest_fields, 6, sizeof(wn_WorkloadExecRequest)};

static const wn_field wn_WorkloadExecResponse_fields[] = {
  {1, WN_INT32, WN_ONE, offsetof(wn_WorkloadExecResponse, exit_code), 0, 0},
  {2, WN_INT32, WN_ONE, offsetof(wn_WorkloadExecResponse, signal), 0, 0},
  {3, WN_STRING, WN_ONE, offsetof(wn_WorkloadExecResponse, stdout_), 0, 0},
  {4, WN_STRING, WN_ONE, offsetof(wn_WorkloadExecResponse, stderr_), 0, 0},
  {5, WN_BOOL, WN_ONE, offsetof(wn_WorkloadExecResponse, stdout_cut), 0, 0},
  {6, WN_BOOL, WN_ONE, offsetof(wn_WorkloadExecResponse, stderr_cut), 0, 0},
};
static const wn_message wn_WorkloadExecResponse_message = {wn_WorkloadExecResponse_fields, 6, sizeof(wn_WorkloadExecResponse)};

/* WN_MESSAGES(X) is X(NAME) for each message. */
#define WN_MESSAGES(X) \
  X(Attribute) \
  X(DeviceDescribeRequest) \
  X(DeviceDescribeResponse) \
  X(DeviceConfigureRequest) \
  X(DeviceConfigureResponse) \
  X(DeviceFingerprintRequest) \
  X(DeviceGroupId) \
  X(Device) \
  X(DeviceGroup) \
  X(DeviceFingerprintResponse) \
  X(DeviceUser) \
  X(DeviceReserveRequest) \
  X(EditedDeviceNode) \
  X(EditedMount) \
  X(EditedHook) \
  X(ContainerEdits) \
  X(DeviceReserveResponse) \
  X(DeviceReleaseRequest) \
  X(DeviceReleaseResponse) \
  X(DeviceStatsRequest) \
  X(StatValue) \
  X(DeviceStat) \
  X(DeviceStats) \
  X(DeviceGroupStats) \
  X(DeviceStatsResponse) \
  X(Resources) \
  X(TaskDirectories) \
  X(Mount) \
  X(DeviceNode) \
  X(Port) \
  X(LogConfig) \
  X(TaskNetwork) \
  X(TaskConfig) \
  X(TaskHandle) \
  X(DriverNetwork) \
  X(ExitResult) \
  X(TaskStatus) \
  X(TaskStats) \
  X(OutputMark) \
  X(TaskEvent) \
  X(DriverDescribeRequest) \
  X(DriverCapabilities) \
  X(DriverDescribeResponse) \
  X(DriverConfigureRequest) \
  X(DriverConfigureResponse) \
  X(DriverFingerprintRequest) \
  X(DriverFingerprintResponse) \
  X(DriverStartTaskRequest) \
  X(DriverStartTaskResponse) \
  X(DriverRecoverTaskRequest) \
  X(DriverRecoverTaskResponse) \
  X(DriverWaitTaskRequest) \
  X(DriverWaitTaskResponse) \
  X(DriverStopTaskRequest) \
  X(DriverStopTaskResponse) \
  X(DriverSignalTaskRequest) \
  X(DriverSignalTaskResponse) \
  X(DriverDestroyTaskRequest) \
  X(DriverDestroyTaskResponse) \
  X(DriverInspectTaskRequest) \
  X(DriverInspectTaskResponse) \
  X(DriverTaskStatsRequest) \
  X(DriverTaskStatsResponse) \
  X(TerminalSize) \
  X(DriverExecTaskRequest) \
  X(DriverExecTaskResponse) \
  X(DriverCreateNetworkRequest) \
  X(DriverCreateNetworkResponse) \
  X(DriverDestroyNetworkRequest) \
  X(DriverDestroyNetworkResponse) \
  X(Error) \
  X(ExecStreams) \
  X(TlsOptions) \
  X(NetDialRequest) \
  X(NetDialResponse) \
  X(HttpHeader) \
  X(HttpRequest) \
  X(HttpRequestResponse) \
  X(HttpResponse) \
  X(HttpTrailers) \
  X(KvGetRequest) \
  X(KvGetResponse) \
  X(KvSetRequest) \
  X(KvSetResponse) \
  X(KvDeleteRequest) \
  X(KvDeleteResponse) \
  X(KvListRequest) \
  X(KvEntry) \
  X(KvListResponse) \
  X(LogField) \
  X(LogFields) \
  X(ProcessLimit) \
  X(ProcessPath) \
  X(ProcessMount) \
  X(ProcessStartRequest) \
  X(ProcessStartResponse) \
  X(ProcessSupportRequest) \
  X(ProcessSupport) \
  X(ProcessRunRequest) \
  X(ProcessRunResponse) \
  X(StreamPollEntry) \
  X(StreamPollRequest) \
  X(StreamPollResponse) \
  X(WasmStartRequest) \
  X(WasmStartResponse) \
  X(WorkloadSignalRequest) \
  X(WorkloadSignalResponse) \
  X(WorkloadStopRequest) \
  X(WorkloadStopResponse) \
  X(WorkloadWaitRequest) \
  X(WorkloadWaitResponse) \
  X(WorkloadStatsRequest) \
  X(WorkloadStatsResponse) \
  X(WorkloadInspectRequest) \
  X(WorkloadInspectResponse) \
  X(WorkloadExecRequest) \
  X(WorkloadExecResponse)

/* DeviceDescribeRequest asks a device plugin who it is. It is the first call that
 * a plugin gets, before it has been granted or configured anything. */
#define WN_DEVICE_DESCRIBE(request, response) \
  WN_OPERATION(device_describe, wn_DeviceDescribeRequest, wn_DeviceDescribeResponse, request, response)

/* DeviceConfigureRequest hands a device plugin its own configuration. */
#define WN_DEVICE_CONFIGURE(request, response) \
  WN_OPERATION(device_configure, wn_DeviceConfigureRequest, wn_DeviceConfigureResponse, request, response)

/* DeviceFingerprintRequest asks which devices there are now. */
#define WN_DEVICE_FINGERPRINT(request, response) \
  WN_OPERATION(device_fingerprint, wn_DeviceFingerprintRequest, wn_DeviceFingerprintResponse, request, response)

/* DeviceReserveRequest asks to prepare devices for a task, and how the task gets at
 * them. The same request may come again and is answered the same. */
#define WN_DEVICE_RESERVE(request, response) \
  WN_OPERATION(device_reserve, wn_DeviceReserveRequest, wn_DeviceReserveResponse, request, response)

/* DeviceReleaseRequest says that a task no longer uses devices. It comes once a
 * reserve has succeeded or failed, and may come again. Releasing what is not
 * reserved succeeds. */
#define WN_DEVICE_RELEASE(request, response) \
  WN_OPERATION(device_release, wn_DeviceReleaseRequest, wn_DeviceReleaseResponse, request, response)

/* DeviceStatsRequest asks for the figures of all devices. */
#define WN_DEVICE_STATS(request, response) \
  WN_OPERATION(device_stats, wn_DeviceStatsRequest, wn_DeviceStatsResponse, request, response)

/* DriverDescribeRequest asks a driver who it is. It is the first call that a
 * plugin gets, before it has been granted or configured anything. */
#define WN_DRIVER_DESCRIBE(request, response) \
  WN_OPERATION(driver_describe, wn_DriverDescribeRequest, wn_DriverDescribeResponse, request, response)

/* DriverConfigureRequest hands a driver its own configuration. */
#define WN_DRIVER_CONFIGURE(request, response) \
  WN_OPERATION(driver_configure, wn_DriverConfigureRequest, wn_DriverConfigureResponse, request, response)

/* DriverFingerprintRequest asks whether the driver can run tasks now. */
#define WN_DRIVER_FINGERPRINT(request, response) \
  WN_OPERATION(driver_fingerprint, wn_DriverFingerprintRequest, wn_DriverFingerprintResponse, request, response)

/* DriverStartTaskRequest asks a driver to start a task. */
#define WN_DRIVER_START_TASK(request, response) \
  WN_OPERATION(driver_start_task, wn_DriverStartTaskRequest, wn_DriverStartTaskResponse, request, response)

/* DriverRecoverTaskRequest hands a running task to a driver instance that does
 * not know it: after an agent restart, a guest fault, or a plugin upgrade. */
#define WN_DRIVER_RECOVER_TASK(request, response) \
  WN_OPERATION(driver_recover_task, wn_DriverRecoverTaskRequest, wn_DriverRecoverTaskResponse, request, response)

/* DriverWaitTaskRequest asks how a task ended. A driver may block in host calls
 * until it has, or until the call is cancelled (the call has an instance to
 * itself), or answer at once that it still runs and be asked again. */
#define WN_DRIVER_WAIT_TASK(request, response) \
  WN_OPERATION(driver_wait_task, wn_DriverWaitTaskRequest, wn_DriverWaitTaskResponse, request, response)

/* DriverStopTaskRequest asks for the signal, a wait of at most timeout_ms, and
 * then force. It returns when the task has ended. */
#define WN_DRIVER_STOP_TASK(request, response) \
  WN_OPERATION(driver_stop_task, wn_DriverStopTaskRequest, wn_DriverStopTaskResponse, request, response)

/* DriverSignalTaskRequest sends a signal to a running task. */
#define WN_DRIVER_SIGNAL_TASK(request, response) \
  WN_OPERATION(driver_signal_task, wn_DriverSignalTaskRequest, wn_DriverSignalTaskResponse, request, response)

/* DriverDestroyTaskRequest asks a driver to forget a task and free what it
 * holds. Destroying what is not there succeeds. */
#define WN_DRIVER_DESTROY_TASK(request, response) \
  WN_OPERATION(driver_destroy_task, wn_DriverDestroyTaskRequest, wn_DriverDestroyTaskResponse, request, response)

/* DriverInspectTaskRequest asks for the state of a task. */
#define WN_DRIVER_INSPECT_TASK(request, response) \
  WN_OPERATION(driver_inspect_task, wn_DriverInspectTaskRequest, wn_DriverInspectTaskResponse, request, response)

/* DriverTaskStatsRequest asks what a task uses now. */
#define WN_DRIVER_TASK_STATS(request, response) \
  WN_OPERATION(driver_task_stats, wn_DriverTaskStatsRequest, wn_DriverTaskStatsResponse, request, response)

/* DriverExecTaskRequest runs a command inside a running task. */
#define WN_DRIVER_EXEC_TASK(request, response) \
  WN_OPERATION(driver_exec_task, wn_DriverExecTaskRequest, wn_DriverExecTaskResponse, request, response)

/* DriverCreateNetworkRequest asks for a network namespace that the tasks of an
 * allocation, those of other drivers too, are to share. */
#define WN_DRIVER_CREATE_NETWORK(request, response) \
  WN_OPERATION(driver_create_network, wn_DriverCreateNetworkRequest, wn_DriverCreateNetworkResponse, request, response)

/* DriverDestroyNetworkRequest lets go of what was created, once the allocation's
 * tasks have ended. Destroying what is not there succeeds. */
#define WN_DRIVER_DESTROY_NETWORK(request, response) \
  WN_OPERATION(driver_destroy_network, wn_DriverDestroyNetworkRequest, wn_DriverDestroyNetworkResponse, request, response)

WN_IMPORT("wasmnode:task/v1", "event") uint64_t wn_import_task_event(const void *from, uint32_t length);
/* Shows an event among the task's. */
WN_FUNCTION const wn_Error *wn_task_event(const wn_TaskEvent *request) {
  wn_string wn_out;
  if (!wn_encode(&wn_TaskEvent_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_task_event(wn_out.data, wn_out.size), 0, 0);
}

WN_IMPORT("wasmnode:task/v1", "marked") uint64_t wn_import_task_marked(uint32_t stream);
/* Answers what was last remembered with a stream of the task's output: 1 is standard output, 2 standard error. */
WN_FUNCTION const wn_Error *wn_task_marked(uint32_t stream, wn_OutputMark *response) {
  return wn_answered(wn_import_task_marked(stream), &wn_OutputMark_message, response);
}

WN_IMPORT("wasmnode:wasm/v1", "start") uint64_t wn_import_wasm_start(const void *from, uint32_t length);
/* Starts a WASI program as the task's workload. */
WN_FUNCTION const wn_Error *wn_wasm_start(const wn_WasmStartRequest *request, wn_WasmStartResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WasmStartRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_wasm_start(wn_out.data, wn_out.size), &wn_WasmStartResponse_message, response);
}

WN_IMPORT("wasmnode:process/v1", "start") uint64_t wn_import_process_start(const void *from, uint32_t length);
/* Starts a process of the operating system as the task's workload. */
WN_FUNCTION const wn_Error *wn_process_start(const wn_ProcessStartRequest *request, wn_ProcessStartResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_ProcessStartRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_process_start(wn_out.data, wn_out.size), &wn_ProcessStartResponse_message, response);
}

WN_IMPORT("wasmnode:process/v1", "support") uint64_t wn_import_process_support(const void *from, uint32_t length);
/* Answers what this node can do with processes. */
WN_FUNCTION const wn_Error *wn_process_support(const wn_ProcessSupportRequest *request, wn_ProcessSupport *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_ProcessSupportRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_process_support(wn_out.data, wn_out.size), &wn_ProcessSupport_message, response);
}

WN_IMPORT("wasmnode:process/v1", "run") uint64_t wn_import_process_run(const void *from, uint32_t length);
/* Runs a helper, a program of the node's, to its end. Waits. */
WN_FUNCTION const wn_Error *wn_process_run(const wn_ProcessRunRequest *request, wn_ProcessRunResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_ProcessRunRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_process_run(wn_out.data, wn_out.size), &wn_ProcessRunResponse_message, response);
}

WN_IMPORT("wasmnode:stream/v1", "poll") uint64_t wn_import_stream_poll(const void *from, uint32_t length);
/* Waits until one of some streams can go on. */
WN_FUNCTION const wn_Error *wn_stream_poll(const wn_StreamPollRequest *request, wn_StreamPollResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_StreamPollRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_stream_poll(wn_out.data, wn_out.size), &wn_StreamPollResponse_message, response);
}

WN_IMPORT("wasmnode:net/v1", "dial") uint64_t wn_import_net_dial(const void *from, uint32_t length);
/* Connects over TCP, with or without TLS, or to a unix socket. Waits. */
WN_FUNCTION const wn_Error *wn_net_dial(const wn_NetDialRequest *request, wn_NetDialResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_NetDialRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_net_dial(wn_out.data, wn_out.size), &wn_NetDialResponse_message, response);
}

WN_IMPORT("wasmnode:http/v1", "request") uint64_t wn_import_http_request(const void *from, uint32_t length);
/* Begins to send a request of HTTP. */
WN_FUNCTION const wn_Error *wn_http_request(const wn_HttpRequest *request, wn_HttpRequestResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_HttpRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_http_request(wn_out.data, wn_out.size), &wn_HttpRequestResponse_message, response);
}

WN_IMPORT("wasmnode:http/v1", "response") uint64_t wn_import_http_response(uint32_t stream);
/* Answers the head of a response. Waits. */
WN_FUNCTION const wn_Error *wn_http_response(uint32_t stream, wn_HttpResponse *response) {
  return wn_answered(wn_import_http_response(stream), &wn_HttpResponse_message, response);
}

WN_IMPORT("wasmnode:http/v1", "trailers") uint64_t wn_import_http_trailers(uint32_t stream);
/* Answers the headers after a body, once that was read to its end. */
WN_FUNCTION const wn_Error *wn_http_trailers(uint32_t stream, wn_HttpTrailers *response) {
  return wn_answered(wn_import_http_trailers(stream), &wn_HttpTrailers_message, response);
}

WN_IMPORT("wasmnode:kv/v1", "get") uint64_t wn_import_kv_get(const void *from, uint32_t length);
/* Answers a value that the plugin keeps, and its version. */
WN_FUNCTION const wn_Error *wn_kv_get(const wn_KvGetRequest *request, wn_KvGetResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_KvGetRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_kv_get(wn_out.data, wn_out.size), &wn_KvGetResponse_message, response);
}

WN_IMPORT("wasmnode:kv/v1", "set") uint64_t wn_import_kv_set(const void *from, uint32_t length);
/* Keeps a value, durably. Waits. */
WN_FUNCTION const wn_Error *wn_kv_set(const wn_KvSetRequest *request, wn_KvSetResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_KvSetRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_kv_set(wn_out.data, wn_out.size), &wn_KvSetResponse_message, response);
}

WN_IMPORT("wasmnode:kv/v1", "delete") uint64_t wn_import_kv_delete(const void *from, uint32_t length);
/* Keeps a value no longer. Waits. */
WN_FUNCTION const wn_Error *wn_kv_delete(const wn_KvDeleteRequest *request, wn_KvDeleteResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_KvDeleteRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_kv_delete(wn_out.data, wn_out.size), &wn_KvDeleteResponse_message, response);
}

WN_IMPORT("wasmnode:kv/v1", "list") uint64_t wn_import_kv_list(const void *from, uint32_t length);
/* Answers the keys that begin with a prefix. */
WN_FUNCTION const wn_Error *wn_kv_list(const wn_KvListRequest *request, wn_KvListResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_KvListRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_kv_list(wn_out.data, wn_out.size), &wn_KvListResponse_message, response);
}

WN_IMPORT("wasmnode:exec/v1", "open") uint64_t wn_import_exec_open(void);
/* Opens the streams of the command that the call is about, once. */
WN_FUNCTION const wn_Error *wn_exec_open(wn_ExecStreams *response) {
  return wn_answered(wn_import_exec_open(), &wn_ExecStreams_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "signal") uint64_t wn_import_workload_signal(const void *from, uint32_t length);
/* Sends a signal to a workload of the task that the call is about. */
WN_FUNCTION const wn_Error *wn_workload_signal(const wn_WorkloadSignalRequest *request, wn_WorkloadSignalResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadSignalRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_signal(wn_out.data, wn_out.size), &wn_WorkloadSignalResponse_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "stop") uint64_t wn_import_workload_stop(const void *from, uint32_t length);
/* Asks such a workload to end, and kills it after a time. Waits. */
WN_FUNCTION const wn_Error *wn_workload_stop(const wn_WorkloadStopRequest *request, wn_WorkloadStopResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadStopRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_stop(wn_out.data, wn_out.size), &wn_WorkloadStopResponse_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "wait") uint64_t wn_import_workload_wait(const void *from, uint32_t length);
/* Waits for the end of such a workload. */
WN_FUNCTION const wn_Error *wn_workload_wait(const wn_WorkloadWaitRequest *request, wn_WorkloadWaitResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadWaitRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_wait(wn_out.data, wn_out.size), &wn_WorkloadWaitResponse_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "stats") uint64_t wn_import_workload_stats(const void *from, uint32_t length);
/* Answers what such a workload uses. */
WN_FUNCTION const wn_Error *wn_workload_stats(const wn_WorkloadStatsRequest *request, wn_WorkloadStatsResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadStatsRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_stats(wn_out.data, wn_out.size), &wn_WorkloadStatsResponse_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "inspect") uint64_t wn_import_workload_inspect(const void *from, uint32_t length);
/* Answers whether such a workload runs, and how it ended. */
WN_FUNCTION const wn_Error *wn_workload_inspect(const wn_WorkloadInspectRequest *request, wn_WorkloadInspectResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadInspectRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_inspect(wn_out.data, wn_out.size), &wn_WorkloadInspectResponse_message, response);
}

WN_IMPORT("wasmnode:workload/v1", "exec") uint64_t wn_import_workload_exec(const void *from, uint32_t length);
/* Runs a command in such a workload to its end. Waits. */
WN_FUNCTION const wn_Error *wn_workload_exec(const wn_WorkloadExecRequest *request, wn_WorkloadExecResponse *response) {
  wn_string wn_out;
  if (!wn_encode(&wn_WorkloadExecRequest_message, request, &wn_out)) return wn_no_memory();
  return wn_answered(wn_import_workload_exec(wn_out.data, wn_out.size), &wn_WorkloadExecResponse_message, response);
}

/* Generated by internal/tools/protoc-gen-sdk: to here */

/* ---- Errors ---- */

/* wn_no_memory returns the error of an operation that has used up its memory. */
WN_FUNCTION const wn_Error *wn_no_memory(void) {
  static const wn_Error error = {WN_ERROR_CODE_RESOURCE_EXHAUSTED, {"out of memory", 13}, false};
  return &error;
}

/* wn_fail_with returns an error for an operation to return, which says whether trying again can
 * help. The message is one line for a person: what went wrong and what to do. */
WN_FUNCTION const wn_Error *wn_fail_with(wn_ErrorCode code, wn_string message, bool recoverable) {
  wn_Error *error = wn_alloc(sizeof *error);
  if (!error) return wn_no_memory();
  *error = (wn_Error){code, message, recoverable};
  return error;
}

/* wn_fail returns one where it cannot. */
WN_FUNCTION const wn_Error *wn_fail(wn_ErrorCode code, const char *message) {
  return wn_fail_with(code, wn_text(message), false);
}

/* WN_TRY returns from an operation with the error of what it tried, if there is one. */
#define WN_TRY(tried)                            \
  do {                                           \
    const wn_Error *wn_error = (tried);          \
    if (wn_error) return wn_error;               \
  } while (0)

/* ---- Capabilities whose arguments are no messages ---- */

WN_IMPORT("wasmnode:log/v1", "write")
void wn_import_log_write(uint32_t level, const void *message, uint32_t length, const void *fields, uint32_t fields_length);
WN_IMPORT("wasmnode:task/v1", "refresh") void wn_import_task_refresh(void);
WN_IMPORT("wasmnode:task/v1", "output") uint64_t wn_import_task_output(uint32_t stream, const void *from, uint32_t length);
WN_IMPORT("wasmnode:task/v1", "mark") uint64_t wn_import_task_mark(uint32_t stream, const void *from, uint32_t length);
WN_IMPORT("wasmnode:stream/v1", "read") uint64_t wn_import_stream_read(uint32_t stream, void *to, uint32_t length);
WN_IMPORT("wasmnode:stream/v1", "write") uint64_t wn_import_stream_write(uint32_t stream, const void *from, uint32_t length);
WN_IMPORT("wasmnode:stream/v1", "shutdown") uint64_t wn_import_stream_shutdown(uint32_t stream);
WN_IMPORT("wasmnode:stream/v1", "close") uint64_t wn_import_stream_close(uint32_t stream);
WN_IMPORT("wasmnode:stream/v1", "blocking") uint64_t wn_import_stream_blocking(uint32_t stream, uint32_t on);

/* wn_log_fields writes a line into the node's log, with fields. */
WN_FUNCTION void wn_log_fields(wn_LogLevel level, wn_string line, const wn_LogField *fields, uint32_t count) {
  wn_LogFields all = {fields, count};
  wn_string encoded;
  if (!wn_encode(&wn_LogFields_message, &all, &encoded)) encoded = (wn_string){0};
  wn_import_log_write((uint32_t)level, line.data, line.size, encoded.data, encoded.size);
}

/* wn_log writes a line into the node's log. */
WN_FUNCTION void wn_log(wn_LogLevel level, const char *line) {
  wn_import_log_write((uint32_t)level, line, wn_text(line).size, NULL, 0);
}

/* wn_die writes why into the node's log and ends the instance: the call is a fault. */
WN_FUNCTION _Noreturn void wn_die(const char *why) {
  wn_log(WN_LOG_LEVEL_ERROR, why);
  __builtin_trap();
}

/* wn_task_refresh asks the node to poll the fingerprint soon. */
WN_FUNCTION void wn_task_refresh(void) { wn_import_task_refresh(); }

/* wn_task_output writes to the log files of the task that the call is about: stream 1 is
 * standard output, 2 standard error. */
WN_FUNCTION const wn_Error *wn_task_output(uint32_t stream, wn_string bytes) {
  return wn_answered(wn_import_task_output(stream, bytes.data, bytes.size), 0, 0);
}

/* wn_task_mark remembers up to 256 bytes with what the stream has so far. */
WN_FUNCTION const wn_Error *wn_task_mark(uint32_t stream, wn_string mark) {
  return wn_answered(wn_import_task_mark(stream, mark.data, mark.size), 0, 0);
}

/* wn_moved takes apart the status of a read or a write: how many bytes, or why none. */
WN_FUNCTION const wn_Error *wn_moved(uint64_t status, uint32_t *count) {
  *count = status >> 32 ? 0 : (uint32_t)status;
  return status >> 32 ? wn_answered(status, 0, 0) : NULL;
}

/* wn_stream_read reads at least one byte into a buffer; a count of 0 is the end of the
 * stream. With wn_stream_blocking(stream, false) it answers UNAVAILABLE instead of waiting. */
WN_FUNCTION const wn_Error *wn_stream_read(uint32_t stream, void *to, uint32_t size, uint32_t *count) {
  return wn_moved(wn_import_stream_read(stream, to, size), count);
}

/* wn_stream_write writes at least one byte, and says how many. */
WN_FUNCTION const wn_Error *wn_stream_write(uint32_t stream, wn_string bytes, uint32_t *count) {
  return wn_moved(wn_import_stream_write(stream, bytes.data, bytes.size), count);
}

/* wn_stream_shutdown has the other side read the end. Reading goes on. */
WN_FUNCTION const wn_Error *wn_stream_shutdown(uint32_t stream) {
  return wn_answered(wn_import_stream_shutdown(stream), 0, 0);
}

/* wn_stream_close closes a stream. What was written to a connection is still sent. */
WN_FUNCTION const wn_Error *wn_stream_close(uint32_t stream) {
  return wn_answered(wn_import_stream_close(stream), 0, 0);
}

/* wn_stream_blocking says whether reads and writes of a stream wait, as they do at first. */
WN_FUNCTION const wn_Error *wn_stream_blocking(uint32_t stream, bool on) {
  return wn_answered(wn_import_stream_blocking(stream, on), 0, 0);
}

/* ---- The calling convention ---- */

WN_IMPORT("wasmnode:abi/v1", "input") void wn_import_abi_input(void *to);
WN_IMPORT("wasmnode:abi/v1", "output") void wn_import_abi_output(const void *from, uint32_t length);
WN_IMPORT("wasmnode:abi/v1", "result") void wn_import_abi_result(void *to);

/* wn_decoded reads a message; garbage is what to say of one that is none. */
WN_FUNCTION const wn_Error *wn_decoded(const wn_message *message, wn_string from, void *to, const char *garbage) {
  switch (wn_decode(message, from, to)) {
    case 0: return NULL;
    case WN_ERROR_CODE_RESOURCE_EXHAUSTED: return wn_no_memory();
    default: return wn_fail(WN_ERROR_CODE_INVALID_ARGUMENT, garbage);
  }
}

/* wn_answered fetches what a capability answered: the response, or why there is none. */
WN_FUNCTION const wn_Error *wn_answered(uint64_t status, const wn_message *message, void *response) {
  uint32_t code = (uint32_t)(status >> 32), length = (uint32_t)status;
  char *answer = NULL;
  if (length) {
    if (!(answer = wn_alloc(length))) return wn_no_memory();
    wn_import_abi_result(answer);
  }
  if (!code) return message ? wn_decoded(message, (wn_string){answer, length}, response, "the node's answer makes no sense") : NULL;
  wn_Error *error = wn_alloc(sizeof *error);
  if (!error) return wn_no_memory();
  if (wn_decode(&wn_Error_message, (wn_string){answer, length}, error)) *error = (wn_Error){0};
  error->code = (wn_ErrorCode)code;
  return error;
}

/* wn_begin takes the request of an operation. */
WN_FUNCTION const wn_Error *wn_begin(uint32_t length, const wn_message *message, void *request) {
  wn_release();
  if (!length) return NULL;
  char *input = wn_alloc(length);
  if (!input) return wn_no_memory();
  wn_import_abi_input(input);
  return wn_decoded(message, (wn_string){input, length}, request, "the request makes no sense");
}

/* wn_end hands over the answer of an operation, and returns its code. */
WN_FUNCTION uint32_t wn_end(const wn_Error *error, const wn_message *message, const void *response) {
  static const char exhausted[] = "\x08\x08\x12\x0dout of memory"; /* wn_no_memory, encoded */
  wn_string answer;
  wn_Error coded;
  if (error) {
    coded = *error;
    if (!coded.code) coded.code = WN_ERROR_CODE_UNKNOWN;
    message = &wn_Error_message, response = &coded;
  }
  if (!wn_encode(message, response, &answer)) {
    wn_import_abi_output(exhausted, sizeof exhausted - 1);
    return WN_ERROR_CODE_RESOURCE_EXHAUSTED;
  }
  wn_import_abi_output(answer.data, answer.size);
  return error ? (uint32_t)coded.code : 0;
}

/* ---- Decoding ---- */

typedef struct wn_reader {
  const uint8_t *at, *end;
} wn_reader;

WN_FUNCTION bool wn_varint(wn_reader *r, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 70 && r->at < r->end; shift += 7) {
    uint8_t byte = *r->at++;
    if (shift == 63 && byte > 1) return false;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* wn_fixed reads eight bytes. */
WN_FUNCTION uint64_t wn_fixed(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

/* wn_take_value reads what follows a tag: a number, or bytes. Groups, which nothing writes
 * any more, are skipped as a whole. */
WN_FUNCTION bool wn_take_value(wn_reader *r, uint64_t tag, uint64_t *number, wn_string *bytes) {
  uint64_t size = 0;
  unsigned depth = 0;
  for (;;) {
    switch (tag & 7) {
      case 0: if (!wn_varint(r, number)) return false; size = 0; break;
      case 1: size = 8; break;
      case 2: if (!wn_varint(r, &size)) return false; break;
      case 3: if (++depth > 100) return false; size = 0; break;
      case 4: if (!depth--) return false; size = 0; break;
      case 5: size = 4; break;
      default: return false;
    }
    if (size > (uint64_t)(r->end - r->at)) return false;
    *bytes = (wn_string){(const char *)r->at, (uint32_t)size};
    r->at += size;
    if (!depth) return true;
    if (!wn_varint(r, &tag)) return false;
  }
}

WN_FUNCTION const wn_field *wn_find(const wn_message *m, int32_t number) {
  for (unsigned i = 0; i < m->count; i++)
    if (m->fields[i].number == number) return &m->fields[i];
  return NULL;
}

/* wn_wire returns how a kind of field is encoded. */
WN_FUNCTION unsigned wn_wire(unsigned kind) { return kind == WN_DOUBLE ? 1 : kind >= WN_STRING ? 2 : 0; }

WN_FUNCTION unsigned wn_size(const wn_field *f) {
  switch (f->kind) {
    case WN_BOOL: return sizeof(bool);
    case WN_INT32: case WN_UINT32: return 4;
    case WN_STRING: return sizeof(wn_string);
    case WN_MESSAGE: return f->label == WN_MANY ? f->message->size : sizeof(void *);
    default: return 8;
  }
}

/* A list of numbers may be packed into one value of bytes. */
WN_FUNCTION bool wn_is_packed(const wn_field *f, uint64_t tag) {
  return f->label == WN_MANY && f->kind < WN_STRING && (tag & 7) == 2;
}

/* wn_next reads the next field of a message that is not at its end. */
WN_FUNCTION bool wn_next(const wn_message *m, wn_reader *r, uint64_t *tag, const wn_field **f, uint64_t *number, wn_string *bytes) {
  if (!wn_varint(r, tag) || (int32_t)(*tag >> 3) <= 0) return false;
  *f = wn_find(m, (int32_t)(*tag >> 3));
  if (*f && (*tag & 7) != wn_wire((*f)->kind) && !wn_is_packed(*f, *tag)) return false;
  return wn_take_value(r, *tag, number, bytes);
}

/* wn_make_room makes the lists of a message as long as they will be. */
WN_FUNCTION int32_t wn_make_room(const wn_message *m, wn_reader r, char *to) {
  uint32_t counts[32] = {0};
  uint64_t tag, number;
  wn_string bytes;
  const wn_field *f;
  while (r.at < r.end) {
    if (!wn_next(m, &r, &tag, &f, &number, &bytes)) return WN_ERROR_CODE_INVALID_ARGUMENT;
    if (!f) continue;
    uint32_t *count = &counts[f - m->fields];
    if (!wn_is_packed(f, tag)) ++*count;
    else for (uint32_t i = 0; i < bytes.size; i++) *count += !(bytes.data[i] & 128);
  }
  for (unsigned i = 0; i < m->count; i++) {
    f = &m->fields[i];
    if (f->label != WN_MANY || !counts[i]) continue;
    uint32_t had = *(uint32_t *)(to + f->beside);
    char *list = wn_alloc(((size_t)had + counts[i]) * wn_size(f));
    if (!list) return WN_ERROR_CODE_RESOURCE_EXHAUSTED;
    if (had) __builtin_memcpy(list, *(char **)(to + f->offset), (size_t)had * wn_size(f));
    *(char **)(to + f->offset) = list;
  }
  return 0;
}

WN_FUNCTION int32_t wn_store(const wn_field *f, char *slot, uint64_t number, wn_string bytes) {
  switch (f->kind) {
    case WN_BOOL: *(bool *)slot = number != 0; return 0;
    case WN_INT32: case WN_UINT32: *(uint32_t *)slot = (uint32_t)number; return 0;
    case WN_INT64: *(uint64_t *)slot = number; return 0;
    case WN_DOUBLE: number = wn_fixed((const uint8_t *)bytes.data); __builtin_memcpy(slot, &number, 8); return 0;
    case WN_STRING: *(wn_string *)slot = bytes; return 0;
  }
  if (f->label == WN_MANY) return wn_decode(f->message, bytes, slot);
  if (!*(void **)slot && !(*(void **)slot = wn_alloc(f->message->size))) return WN_ERROR_CODE_RESOURCE_EXHAUSTED;
  return wn_decode(f->message, bytes, *(void **)slot);
}

WN_FUNCTION int32_t wn_store_packed(const wn_field *f, char *list, uint32_t *count, wn_string bytes) {
  wn_reader r = {(const uint8_t *)bytes.data, (const uint8_t *)bytes.data + bytes.size};
  uint64_t number;
  while (r.at < r.end) {
    if (!wn_varint(&r, &number)) return WN_ERROR_CODE_INVALID_ARGUMENT;
    wn_store(f, list + (size_t)(*count)++ * wn_size(f), number, (wn_string){0});
  }
  return 0;
}

WN_FUNCTION int32_t wn_store_field(const wn_field *f, char *to, uint64_t tag, uint64_t number, wn_string bytes) {
  char *slot = to + f->offset, *beside = to + f->beside;
  switch (f->label) {
    case WN_OPTIONAL: *(bool *)beside = true; break;
    case WN_CASE: *(uint32_t *)beside = f->number; break;
    case WN_MANY:
      if (wn_is_packed(f, tag)) return wn_store_packed(f, *(char **)slot, (uint32_t *)beside, bytes);
      slot = *(char **)slot + (size_t)(*(uint32_t *)beside)++ * wn_size(f);
      break;
  }
  return wn_store(f, slot, number, bytes);
}

/* wn_decode reads a message into its structure, which is zero before, and returns 0 or the
 * code of an error. Texts stay where they are in the bytes. Unknown fields are skipped. */
WN_FUNCTION int32_t wn_decode(const wn_message *m, wn_string from, void *to) {
  wn_reader r = {(const uint8_t *)from.data, (const uint8_t *)from.data + from.size};
  uint64_t tag, number = 0;
  wn_string bytes;
  const wn_field *f;
  int32_t code = wn_make_room(m, r, to);
  while (!code && r.at < r.end) {
    if (!wn_next(m, &r, &tag, &f, &number, &bytes)) return WN_ERROR_CODE_INVALID_ARGUMENT;
    if (f) code = wn_store_field(f, to, tag, number, bytes);
  }
  return code;
}

/* ---- Encoding, from the end to the beginning ---- */

/* With an end of NULL it only counts. */
typedef struct wn_writer {
  char *end;
  size_t size;
} wn_writer;

WN_FUNCTION void wn_put(wn_writer *w, const void *bytes, size_t size) {
  w->size += size;
  if (w->end && size) __builtin_memcpy(w->end - w->size, bytes, size);
}

WN_FUNCTION void wn_put_varint(wn_writer *w, uint64_t value) {
  uint8_t bytes[10];
  unsigned n = 0;
  for (; value > 127; value >>= 7) bytes[n++] = (uint8_t)(value | 128);
  bytes[n++] = (uint8_t)value;
  wn_put(w, bytes, n);
}

WN_FUNCTION uint64_t wn_number(const wn_field *f, const char *slot) {
  uint64_t number;
  switch (f->kind) {
    case WN_BOOL: return *(const bool *)slot;
    case WN_INT32: return (uint64_t)(int64_t)*(const int32_t *)slot;
    case WN_UINT32: return *(const uint32_t *)slot;
    default: __builtin_memcpy(&number, slot, 8); return number;
  }
}

WN_FUNCTION void wn_put_message(wn_writer *w, const wn_message *m, const char *from);

/* wn_put_value writes a value, and the tag before it. */
WN_FUNCTION void wn_put_value(wn_writer *w, const wn_field *f, const char *slot) {
  size_t before = w->size;
  uint64_t number;
  switch (f->kind) {
    case WN_STRING: wn_put(w, ((const wn_string *)slot)->data, ((const wn_string *)slot)->size); break;
    case WN_MESSAGE:
      if (f->label != WN_MANY) slot = *(char *const *)slot;
      if (slot) wn_put_message(w, f->message, slot);
      break;
    case WN_DOUBLE: number = wn_number(f, slot); wn_put(w, &number, 8); break;
    default: wn_put_varint(w, wn_number(f, slot));
  }
  if (f->kind >= WN_STRING) wn_put_varint(w, w->size - before);
  wn_put_varint(w, (uint64_t)f->number << 3 | wn_wire(f->kind));
}

WN_FUNCTION void wn_put_list(wn_writer *w, const wn_field *f, const char *list, uint32_t count) {
  if (f->kind >= WN_STRING) {
    while (count) wn_put_value(w, f, list + (size_t)--count * wn_size(f));
    return;
  }
  size_t before = w->size;
  if (!count) return;
  while (count) wn_put_varint(w, wn_number(f, list + (size_t)--count * wn_size(f)));
  wn_put_varint(w, w->size - before);
  wn_put_varint(w, (uint64_t)f->number << 3 | 2);
}

/* wn_is_set reports whether a field is written: proto3 leaves out a zero. */
WN_FUNCTION bool wn_is_set(const wn_field *f, const char *from) {
  const char *slot = from + f->offset, *beside = from + f->beside;
  switch (f->label) {
    case WN_OPTIONAL: return *(const bool *)beside;
    case WN_CASE: return *(const uint32_t *)beside == f->number;
    case WN_ALWAYS: return true;
  }
  switch (f->kind) {
    case WN_STRING: return ((const wn_string *)slot)->size != 0;
    case WN_MESSAGE: return *(char *const *)slot != NULL;
    default: return wn_number(f, slot) != 0;
  }
}

WN_FUNCTION void wn_put_message(wn_writer *w, const wn_message *m, const char *from) {
  for (unsigned i = m->count; i-- > 0;) {
    const wn_field *f = &m->fields[i];
    if (f->label == WN_MANY) wn_put_list(w, f, *(char *const *)(from + f->offset), *(const uint32_t *)(from + f->beside));
    else if (wn_is_set(f, from)) wn_put_value(w, f, from + f->offset);
  }
}

/* wn_encode writes a message into memory of wn_alloc; false: there is none. */
WN_FUNCTION bool wn_encode(const wn_message *m, const void *from, wn_string *to) {
  wn_writer w = {0};
  wn_put_message(&w, m, from);
  size_t size = w.size;
  char *bytes = wn_alloc(size);
  if (!bytes) return false;
  w = (wn_writer){bytes + size, 0};
  wn_put_message(&w, m, from);
  *to = (wn_string){bytes, (uint32_t)size};
  return true;
}

/* ---- JSON of configurations ---- */

enum { WN_JSON_NULL = 1, WN_JSON_FALSE, WN_JSON_TRUE, WN_JSON_NUMBER, WN_JSON_STRING, WN_JSON_LIST, WN_JSON_OBJECT };

/* wn_json is a value. NULL is one that is not there: every function takes it, and answers
 * with zero, as for a value of another type than the one that is asked for. */
typedef struct wn_json {
  int kind;
  wn_string name; /* of a member of an object */
  wn_string text; /* of a string, and of a number as it was written */
  struct wn_json *first, *next;
} wn_json;

/* Objects and lists in one another. */
#define WN_JSON_DEPTH 64

WN_FUNCTION void wn_json_space(wn_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

WN_FUNCTION bool wn_json_byte(wn_reader *r, uint8_t byte) {
  if (r->at >= r->end || *r->at != byte) return false;
  r->at++;
  return true;
}

WN_FUNCTION bool wn_json_hex(wn_reader *r, uint32_t *value) {
  *value = 0;
  for (int i = 0; i < 4; i++) {
    if (r->at >= r->end) return false;
    uint8_t c = *r->at++, lower = c | 32;
    if (c >= '0' && c <= '9') *value = *value << 4 | (uint32_t)(c - '0');
    else if (lower >= 'a' && lower <= 'f') *value = *value << 4 | (uint32_t)(lower - 'a' + 10);
    else return false;
  }
  return true;
}

/* wn_json_utf8 reads what follows "\u", with the second half of a pair, and writes it. Half
 * a pair becomes U+FFFD. */
WN_FUNCTION char *wn_json_utf8(wn_reader *r, char *to) {
  uint32_t c, low;
  if (!wn_json_hex(r, &c)) return NULL;
  if (c >= 0xd800 && c < 0xe000) {
    wn_reader after = *r;
    if (c < 0xdc00 && wn_json_byte(&after, '\\') && wn_json_byte(&after, 'u') && wn_json_hex(&after, &low) && low >= 0xdc00 && low < 0xe000) {
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
      *r = after;
    } else c = 0xfffd;
  }
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(heads[more] | c >> (6 * more));
  while (more-- > 0) *to++ = (char)(0x80 | (c >> (6 * more) & 63));
  return to;
}

WN_FUNCTION bool wn_json_text(wn_reader *r, wn_string *text) {
  const uint8_t *end = r->at;
  while (end < r->end && *end != '"') end += *end == '\\' && r->end - end > 1 ? 2 : 1;
  char *to = wn_alloc((size_t)(end - r->at)), *from = to;
  if (!to) return false;
  while (to && r->at < r->end && *r->at != '"') {
    uint8_t c = *r->at++;
    if (c < ' ') return false;
    if (c != '\\') { *to++ = (char)c; continue; }
    if (r->at >= r->end) return false;
    switch (c = *r->at++) {
      case '"': case '\\': case '/': *to++ = (char)c; break;
      case 'b': *to++ = '\b'; break;
      case 'f': *to++ = '\f'; break;
      case 'n': *to++ = '\n'; break;
      case 'r': *to++ = '\r'; break;
      case 't': *to++ = '\t'; break;
      case 'u': to = wn_json_utf8(r, to); break;
      default: return false;
    }
  }
  if (!to || !wn_json_byte(r, '"')) return false;
  *text = (wn_string){from, (uint32_t)(to - from)};
  return true;
}

WN_FUNCTION bool wn_json_digits(wn_reader *r) {
  const uint8_t *from = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from;
}

WN_FUNCTION bool wn_json_number(wn_reader *r, wn_string *text) {
  const uint8_t *from = r->at;
  wn_json_byte(r, '-');
  if (!wn_json_byte(r, '0') && !wn_json_digits(r)) return false;
  if (wn_json_byte(r, '.') && !wn_json_digits(r)) return false;
  if (wn_json_byte(r, 'e') || wn_json_byte(r, 'E')) {
    if (!wn_json_byte(r, '+')) wn_json_byte(r, '-');
    if (!wn_json_digits(r)) return false;
  }
  *text = (wn_string){(const char *)from, (uint32_t)(r->at - from)};
  return true;
}

WN_FUNCTION bool wn_json_word(wn_reader *r, const char *word) {
  while (*word)
    if (!wn_json_byte(r, (uint8_t)*word++)) return false;
  return true;
}

WN_FUNCTION wn_json *wn_json_value(wn_reader *r, int depth);

/* wn_json_items reads what an object or a list holds, up to its end. */
WN_FUNCTION bool wn_json_items(wn_reader *r, wn_json *parent, uint8_t end, int depth) {
  wn_json **last = &parent->first;
  wn_json_space(r);
  if (wn_json_byte(r, end)) return true;
  do {
    wn_string name = {0};
    if (end == '}') {
      wn_json_space(r);
      if (!wn_json_byte(r, '"') || !wn_json_text(r, &name)) return false;
      wn_json_space(r);
      if (!wn_json_byte(r, ':')) return false;
    }
    if (!(*last = wn_json_value(r, depth + 1))) return false;
    (*last)->name = name;
    last = &(*last)->next;
    wn_json_space(r);
  } while (wn_json_byte(r, ','));
  return wn_json_byte(r, end);
}

WN_FUNCTION wn_json *wn_json_value(wn_reader *r, int depth) {
  wn_json *v = wn_alloc(sizeof *v);
  bool ok = false;
  wn_json_space(r);
  if (!v || depth > WN_JSON_DEPTH || r->at >= r->end) return NULL;
  switch (*r->at) {
    case '{': v->kind = WN_JSON_OBJECT; r->at++; ok = wn_json_items(r, v, '}', depth); break;
    case '[': v->kind = WN_JSON_LIST; r->at++; ok = wn_json_items(r, v, ']', depth); break;
    case '"': v->kind = WN_JSON_STRING; r->at++; ok = wn_json_text(r, &v->text); break;
    case 't': v->kind = WN_JSON_TRUE; ok = wn_json_word(r, "true"); break;
    case 'f': v->kind = WN_JSON_FALSE; ok = wn_json_word(r, "false"); break;
    case 'n': v->kind = WN_JSON_NULL; ok = wn_json_word(r, "null"); break;
    default: v->kind = WN_JSON_NUMBER; ok = wn_json_number(r, &v->text);
  }
  return ok ? v : NULL;
}

/* wn_json_parse reads one value, and returns NULL for what is none. The node has checked a
 * configuration against the schema before, and filled in its defaults. */
WN_FUNCTION const wn_json *wn_json_parse(wn_string text) {
  wn_reader r = {(const uint8_t *)text.data, (const uint8_t *)text.data + text.size};
  wn_json *v = wn_json_value(&r, 0);
  wn_json_space(&r);
  return r.at == r.end ? v : NULL;
}

/* wn_json_get returns the member of an object: of several with the same name, the last. */
WN_FUNCTION const wn_json *wn_json_get(const wn_json *object, const char *name) {
  const wn_json *found = NULL;
  if (!object || object->kind != WN_JSON_OBJECT) return NULL;
  for (const wn_json *v = object->first; v; v = v->next)
    if (wn_equal(v->name, wn_text(name))) found = v;
  return found;
}

/* wn_json_string returns a text, empty for what is none. */
WN_FUNCTION wn_string wn_json_string(const wn_json *v) {
  return v && v->kind == WN_JSON_STRING ? v->text : (wn_string){0};
}

/* wn_json_bool reports whether it is true. */
WN_FUNCTION bool wn_json_bool(const wn_json *v) { return v && v->kind == WN_JSON_TRUE; }

/* wn_json_int returns a whole number, 0 for one that is none or does not fit. */
WN_FUNCTION int64_t wn_json_int(const wn_json *v) {
  if (!v || v->kind != WN_JSON_NUMBER) return 0;
  bool negative = v->text.data[0] == '-';
  uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
  for (uint32_t i = negative; i < v->text.size; i++) {
    uint8_t digit = (uint8_t)(v->text.data[i] - '0');
    if (digit > 9 || value > (most - digit) / 10) return 0;
    value = value * 10 + digit;
  }
  return negative ? (int64_t)(0 - value) : (int64_t)value;
}

/* wn_json_texts returns the strings of a list, and how many there are. */
WN_FUNCTION const wn_string *wn_json_texts(const wn_json *list, uint32_t *count) {
  *count = 0;
  if (!list || list->kind != WN_JSON_LIST) return NULL;
  for (const wn_json *v = list->first; v; v = v->next) ++*count;
  wn_string *texts = wn_alloc(*count * sizeof *texts);
  if (!texts) *count = 0;
  uint32_t i = 0;
  for (const wn_json *v = list->first; texts && v; v = v->next) texts[i++] = wn_json_string(v);
  return texts;
}

#endif /* WASMNODE_H */
