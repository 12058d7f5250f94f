package abi

// Version is the ABI's version; it is part of every capability's module name.
const Version = "v1"

// Major and Minor are the same version in numbers, for a plugin to say which it needs: Major is
// that of the capabilities' names, and Minor is raised when a release adds to the contract
// what an older node would not miss by name, such as a field of a request.
const (
	Major = 1
	Minor = 0
)

// SectionMetadata is the custom section of a plugin's file that says what the file is: a JSON
// object with name, version, license, source and min_abi.
const SectionMetadata = "wasmnode:metadata"

// Host modules that a plugin may import. The import section of a plugin is the
// manifest of what it can ask for.
const (
	ModuleABI      = "wasmnode:abi/v1"
	ModuleLog      = "wasmnode:log/v1"
	ModuleTask     = "wasmnode:task/v1"
	ModuleWasm     = "wasmnode:wasm/v1"
	ModuleProcess  = "wasmnode:process/v1"
	ModuleStream   = "wasmnode:stream/v1"
	ModuleNet      = "wasmnode:net/v1"
	ModuleHTTP     = "wasmnode:http/v1"
	ModuleKV       = "wasmnode:kv/v1"
	ModuleExec     = "wasmnode:exec/v1"
	ModuleWorkload = "wasmnode:workload/v1"
	ModuleWASI     = "wasi_snapshot_preview1"
)

// ModulePrefix begins the name of every host module of ours, in any version.
const ModulePrefix = "wasmnode:"

// Functions of wasmnode:abi/v1.
const (
	FuncInput  = "input"  // (ptr i32): copies the call's input to ptr
	FuncOutput = "output" // (ptr, len i32): hands over the call's answer, once
	FuncResult = "result" // (ptr i32): copies the last capability's answer to ptr
)

// Functions of the other modules. Those that return an i64 pack a status, see
// [Status].
const (
	FuncLogWrite       = "write"   // log: (level, msg_ptr, msg_len, fields_ptr, fields_len i32)
	FuncTaskEvent      = "event"   // task: (ptr, len i32) -> i64, a TaskEvent
	FuncTaskRefresh    = "refresh" // task: ()
	FuncTaskOutput     = "output"  // task: (stream, ptr, len i32) -> i64; stream 1 stdout, 2 stderr
	FuncTaskMark       = "mark"    // task: (stream, ptr, len i32) -> i64; remembers bytes with the output so far
	FuncTaskMarked     = "marked"  // task: (stream i32) -> i64, answers an OutputMark
	FuncWasmStart      = "start"   // wasm: (ptr, len i32) -> i64, a WasmStartRequest
	FuncProcessStart   = "start"   // process: (ptr, len i32) -> i64, a ProcessStartRequest
	FuncProcessSupport = "support" // process: (ptr, len i32) -> i64, a ProcessSupportRequest
	FuncProcessRun     = "run"     // process: (ptr, len i32) -> i64, a ProcessRunRequest

	FuncStreamRead     = "read"     // stream: (stream, ptr, len i32) -> i64; on success the lower half counts bytes, 0: the end
	FuncStreamWrite    = "write"    // stream: (stream, ptr, len i32) -> i64; on success the lower half counts bytes
	FuncStreamShutdown = "shutdown" // stream: (stream i32) -> i64; nothing more is written
	FuncStreamClose    = "close"    // stream: (stream i32) -> i64
	FuncStreamPoll     = "poll"     // stream: (ptr, len i32) -> i64, a StreamPollRequest
	FuncStreamBlocking = "blocking" // stream: (stream, on i32) -> i64; 0: a read or write never waits

	FuncNetDial      = "dial"     // net: (ptr, len i32) -> i64, a NetDialRequest
	FuncHTTPRequest  = "request"  // http: (ptr, len i32) -> i64, an HttpRequest
	FuncHTTPResponse = "response" // http: (stream i32) -> i64, answers an HttpResponse
	FuncHTTPTrailers = "trailers" // http: (stream i32) -> i64, answers HttpTrailers

	FuncKVGet    = "get"    // kv: (ptr, len i32) -> i64, a KvGetRequest
	FuncKVSet    = "set"    // kv: (ptr, len i32) -> i64, a KvSetRequest
	FuncKVDelete = "delete" // kv: (ptr, len i32) -> i64, a KvDeleteRequest
	FuncKVList   = "list"   // kv: (ptr, len i32) -> i64, a KvListRequest

	FuncExecOpen = "open" // exec: () -> i64, answers ExecStreams

	FuncWorkloadSignal  = "signal"  // workload: (ptr, len i32) -> i64, a WorkloadSignalRequest
	FuncWorkloadStop    = "stop"    // workload: (ptr, len i32) -> i64, a WorkloadStopRequest
	FuncWorkloadWait    = "wait"    // workload: (ptr, len i32) -> i64, a WorkloadWaitRequest
	FuncWorkloadStats   = "stats"   // workload: (ptr, len i32) -> i64, a WorkloadStatsRequest
	FuncWorkloadInspect = "inspect" // workload: (ptr, len i32) -> i64, a WorkloadInspectRequest
	FuncWorkloadExec    = "exec"    // workload: (ptr, len i32) -> i64, a WorkloadExecRequest
)

// Operations that a driver exports, each `(input_len: i32) -> i32`.
const (
	OpDriverDescribe    = "driver_describe"
	OpDriverConfigure   = "driver_configure"
	OpDriverFingerprint = "driver_fingerprint"
	OpDriverStartTask   = "driver_start_task"
	OpDriverRecoverTask = "driver_recover_task"
	OpDriverWaitTask    = "driver_wait_task"
	OpDriverStopTask    = "driver_stop_task"
	OpDriverSignalTask  = "driver_signal_task"
	OpDriverDestroyTask = "driver_destroy_task"
	OpDriverInspectTask = "driver_inspect_task"
	OpDriverTaskStats   = "driver_task_stats"
	OpDriverExecTask    = "driver_exec_task"

	OpDriverCreateNetwork  = "driver_create_network"
	OpDriverDestroyNetwork = "driver_destroy_network"
)

// Operations that a device plugin exports.
const (
	OpDeviceDescribe    = "device_describe"
	OpDeviceConfigure   = "device_configure"
	OpDeviceFingerprint = "device_fingerprint"
	OpDeviceReserve     = "device_reserve"
	OpDeviceRelease     = "device_release"
	OpDeviceStats       = "device_stats"
)

// RequiredDriverOps are the operations without which a driver is refused; for the
// others the host has a default where the task has a workload.
var RequiredDriverOps = []string{OpDriverDescribe, OpDriverConfigure, OpDriverFingerprint, OpDriverStartTask}

// RequiredDeviceOps are the operations without which a device plugin is refused: the
// others are not missed, it has no figures or nothing to free.
var RequiredDeviceOps = []string{OpDeviceDescribe, OpDeviceConfigure, OpDeviceFingerprint, OpDeviceReserve}

// Where a driver sees the directories of the task that a call is about, by WASI: its own, with
// "local" and "secrets", and the one that the allocation's tasks share.
const (
	TaskDir      = "/task"
	TaskAllocDir = "/task/alloc"
)

// ExportInitialize is the WASI reactor's initialiser, called once per instance
// before any operation when a plugin exports it.
const ExportInitialize = "_initialize"

// Status packs what a capability function returns: a gRPC status code in the
// upper half (0 is success) and the length of the staged answer in the lower. The
// answer of a failure is an encoded Error message.
func Status(code uint32, length uint32) uint64 { return uint64(code)<<32 | uint64(length) }

// SplitStatus is the inverse of [Status].
func SplitStatus(s uint64) (code, length uint32) { return uint32(s >> 32), uint32(s) }

// MaxName is how long the name of a plugin may be, in bytes.
const MaxName = 64

// ValidName reports whether a plugin may have that name: a letter, then letters, digits, '_' or
// '-', of ASCII.
func ValidName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= MaxName
}
