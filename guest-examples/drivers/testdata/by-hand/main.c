// The driver plugin "by_hand": runs the WASI program that its config names. C with no
// library at all: the whole of the ABI is here.

typedef unsigned char byte;
typedef unsigned int u32;
typedef unsigned long long u64;
#define IMPORT(module, name) __attribute__((import_module(module), import_name(name))) extern
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT("wasmnode:abi/v1", "input") void abi_input(void *to);
IMPORT("wasmnode:abi/v1", "output") void abi_output(const void *from, u32 length);
IMPORT("wasmnode:abi/v1", "result") void abi_result(void *to);
IMPORT("wasmnode:wasm/v1", "start") u64 wasm_start(const void *from, u32 length);

static byte in[256 << 10], out[sizeof in + 64]; // what is put into out is less than in
static u32 n;                                   // bytes in out

static void put(u32 v) { for (; v > 127; v >>= 7) out[n++] = v | 128; out[n++] = v; }
static void number(u32 field, u32 v) { put(field << 3); put(v); }
static void bytes(u32 field, const void *p, u32 len) { put(field << 3 | 2); put(len); __builtin_memcpy(out + n, p, len); n += len; }
static void text(u32 field, const char *s) { u32 len = 0; while (s[len]) len++; bytes(field, s, len); }
static u32 fail(u32 code, const char *message) { n = 0; number(1, code); text(2, message); abi_output(out, n); return code; }

EXPORT("driver_describe") u32 describe(u32 length) {
  (void)length; n = 0;
  text(1, "by_hand"); text(2, "0.1.0");
  text(5, "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"module\"],\"properties\":{\"module\":{"
          "\"type\":\"string\",\"minLength\":1,\"description\":\"The WASI program to run.\"}}}");
  abi_output(out, n);
  return 0;
}

EXPORT("driver_configure") u32 configure(u32 length) { (void)length; abi_output(out, 0); return 0; }

EXPORT("driver_fingerprint") u32 fingerprint(u32 length) {
  (void)length; n = 0;
  number(1, 3); text(2, "Healthy"); // HEALTH_STATE_HEALTHY
  abi_output(out, n);
  return 0;
}

// The rest reads a protobuf message and starts a task.

static u64 varint(const byte **p, const byte *end) {
  u64 v = 0;
  for (int shift = 0; *p < end && shift < 64; shift += 7) { byte b = *(*p)++; v |= (u64)(b & 127) << shift; if (b < 128) break; }
  return v;
}

// next reads a field and returns its number, 0 at the end or where the bytes make no sense.
static u32 next(const byte **p, const byte *end, const byte **at, u32 *len) {
  if (*p >= end) return 0;
  u64 tag = varint(p, end), size = 0;
  switch (tag & 7) {
    case 0: varint(p, end); break;
    case 1: size = 8; break;
    case 2: size = varint(p, end); break;
    case 5: size = 4; break;
    default: return 0;
  }
  if (size > (u64)(end - *p)) return 0;
  *at = *p; *len = size; *p += size;
  return tag >> 3;
}

EXPORT("driver_start_task") u32 start_task(u32 length) {
  const byte *request = in, *task, *at, *id = 0;
  u32 task_len, len, module = 0, id_len = 0;
  if (length > sizeof in) return fail(8, "the task does not fit into 256 KiB"); // RESOURCE_EXHAUSTED
  abi_input(in);
  if (next(&request, in + length, &task, &task_len) != 1) return fail(3, "no task"); // INVALID_ARGUMENT
  n = 0;
  for (const byte *end = task + task_len, *p = task; p < end;) {
    u32 field = next(&p, end, &at, &len);
    if (field == 0) return fail(3, "the task makes no sense");
    if (field == 11) bytes(3, at, len); // env: the entries of both maps look the same
    if (field != 21) continue;
    u32 from = 0, to; // driver_config: the schema allows {"module":"PATH"} and nothing else
    while (from < len && at[from] != ':') from++;
    while (from < len && at[from] != '"') from++;
    for (to = ++from; to < len && at[to] != '"'; to++) if (at[to] == '\\') return fail(3, "module: no escapes, please");
    if (to < len) { bytes(1, at + from, to - from); module = 1; }
  }
  if (!module) return fail(3, "module is missing");
  u64 status = wasm_start(out, n);
  if ((length = (u32)status) > sizeof in - 64) __builtin_trap(); // leaves room for the handle around it
  abi_result(in);
  if (status >> 32) { abi_output(in, length); return status >> 32; } // the capability's Error is ours
  for (const byte *p = in; (len = 0, next(&p, in + length, &at, &len)) == 1;) id = at, id_len = len;
  if (!id) return fail(13, "no workload id"); // INTERNAL
  n = 0; number(1, 1); bytes(3, id, id_len);  // TaskHandle{version: 1, workload_id: id}
  u32 handle = n; __builtin_memcpy(in, out, handle);
  n = 0; bytes(1, in, handle); abi_output(out, n);
  return 0;
}
