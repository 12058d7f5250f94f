//! The driver plugin "@NAME@": a task is a script that the shell of the node runs. The node owns
//! the process; the driver only decides what to run.
//!
//! Nothing may live in memory: the node throws an instance away whenever it likes. What a task
//! needs goes into its handle.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

// A panic and what std.log writes are lines in the node's log.
pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

// Exports the operations that are functions here. What is not here the node does with the
// process that the handle names: it waits for it, stops, signals, inspects, measures and
// destroys it, and runs commands beside it. There is an operation for each of these, for tasks
// that need something else.
comptime {
    wasmnode.plugin(@This());
}

const shell = "/bin/sh";

/// Grows when newer versions of the driver write other handles.
const handle_version = 1;

/// A task's config block, as in the schema.
const Config = struct {
    script: []const u8 = "",
    args: []const []const u8 = &.{},
};

/// Says who the driver is, and what a task's config block may hold.
pub fn driverDescribe(_: Allocator, _: wasmnode.DriverDescribeRequest) !wasmnode.DriverDescribeResponse {
    return .{
        .name = "@NAME@",
        .version = "0.1.0",
        .capabilities = .{ .send_signals = true, .exec = true, .filesystem_isolation = .none },
        .task_config_schema = @embedFile("task_schema.json"),
    };
}

/// Takes the plugin's own configuration; this one has none.
pub fn driverConfigure(_: Allocator, _: wasmnode.DriverConfigureRequest) !wasmnode.DriverConfigureResponse {
    return .{};
}

/// Says whether the driver can work here.
pub fn driverFingerprint(_: Allocator, _: wasmnode.DriverFingerprintRequest) !wasmnode.DriverFingerprintResponse {
    return .{ .health = .healthy, .description = "Healthy" };
}

/// Starts a task. Its config was checked against the schema, and has its defaults.
pub fn driverStartTask(arena: Allocator, request: wasmnode.DriverStartTaskRequest) !wasmnode.DriverStartTaskResponse {
    const task = request.task orelse return wasmnode.fail(.invalid_argument, "there is no task", .{});
    const config = try wasmnode.parseConfig(Config, arena, task.driver_config);
    if (config.script.len == 0) return wasmnode.fail(.invalid_argument, "config: script is missing", .{});
    const started = try wasmnode.processStart(arena, .{
        .command = shell,
        .args = try std.mem.concat(arena, []const u8, &.{ &.{ "-c", config.script, task.name }, config.args }),
        .env = task.env,
        .user = task.user,
        .isolation = .none,
    });
    return .{ .handle = .{ .version = handle_version, .workload_id = started.workload_id } };
}

/// Takes a task over after a restart of the agent, or an upgrade of the plugin. The node has made
/// sure that its process is there.
pub fn driverRecoverTask(_: Allocator, request: wasmnode.DriverRecoverTaskRequest) !wasmnode.DriverRecoverTaskResponse {
    const handle = request.handle orelse return wasmnode.fail(.invalid_argument, "there is no handle", .{});
    if (handle.version > handle_version) {
        return wasmnode.fail(.failed_precondition, "a newer version of the driver started this task", .{});
    }
    return .{}; // the handle stays as it is
}

// ---- Tests ----

const testing = wasmnode.testing;
const expectEqual = std.testing.expectEqual;
const expectError = std.testing.expectError;
const expectEqualStrings = std.testing.expectEqualStrings;

fn start(arena: Allocator, config: []const u8) !wasmnode.DriverStartTaskResponse {
    return driverStartTask(arena, .{ .task = .{ .name = "task", .driver_config = config } });
}

test "a task is its script" {
    const arena = testing.begin();
    defer testing.end();
    try testing.answer("process_start", wasmnode.ProcessStartResponse{ .workload_id = "workload" });
    const started = try start(arena,
        \\{"script": "echo $1", "args": ["hi"]}
    );
    try expectEqual(handle_version, started.handle.?.version);
    try expectEqualStrings("workload", started.handle.?.workload_id);

    const process = try testing.asked(wasmnode.ProcessStartRequest, "process_start");
    try expectEqualStrings(shell, process.command);
    try expectEqualStrings("-c echo $1 task hi", try std.mem.join(arena, " ", process.args));
}

test "what the node refuses is the start's error" {
    const arena = testing.begin();
    defer testing.end();
    try testing.refuse("process_start", .{ .code = .permission_denied, .message = "not granted" });
    try expectError(error.PermissionDenied, start(arena,
        \\{"script": "true"}
    ));
    try expectError(error.InvalidArgument, start(arena, "{}"));
    try expectEqualStrings("config: script is missing", wasmnode.lastError().message);
}

test "a handle of a newer version is refused" {
    const arena = testing.begin();
    defer testing.end();
    _ = try driverRecoverTask(arena, .{ .handle = .{ .version = handle_version } });
    const newer = wasmnode.TaskHandle{ .version = handle_version + 1 };
    try expectError(error.FailedPrecondition, driverRecoverTask(arena, .{ .handle = newer }));
}
