//! The device plugin "@NAME@": the devices are those that its configuration names, and a task is
//! told which it has. Real ones would be looked for in deviceFingerprint, and given to the task
//! by mounts and device nodes of its edits.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

// A panic and what std.log writes are lines in the node's log.
pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

// Exports the operations that are functions here.
comptime {
    wasmnode.plugin(@This());
}

const group = wasmnode.DeviceGroupId{ .vendor = "example", .type = "@NAME@", .name = "virtual" };

const Config = struct { devices: []const []const u8 = &.{} };

/// The configuration, which each instance gets before anything else. Nothing else may live in
/// memory: the node throws an instance away whenever it likes, and what an operation's arena
/// gives lasts until the next operation.
var configuration: [8192]u8 = undefined;
var devices: []const []const u8 = &.{};

/// Says who the plugin is, and what its configuration may hold.
pub fn deviceDescribe(_: Allocator, _: wasmnode.DeviceDescribeRequest) !wasmnode.DeviceDescribeResponse {
    return .{ .name = "@NAME@", .version = "0.1.0", .plugin_config_schema = @embedFile("plugin_schema.json") };
}

/// Takes the plugin's configuration. It was checked against the schema, and has its defaults.
pub fn deviceConfigure(arena: Allocator, request: wasmnode.DeviceConfigureRequest) !wasmnode.DeviceConfigureResponse {
    const text = if (request.config.len == 0) "{}" else request.config;
    const config = try wasmnode.parseConfig(Config, arena, text);
    var room = std.heap.FixedBufferAllocator.init(&configuration);
    const kept = try room.allocator().alloc([]const u8, config.devices.len);
    devices = &.{}; // the room was theirs
    for (config.devices, kept) |id, *copy| copy.* = try room.allocator().dupe(u8, id);
    devices = kept;
    return .{};
}

/// Returns all devices that there are now.
pub fn deviceFingerprint(arena: Allocator, _: wasmnode.DeviceFingerprintRequest) !wasmnode.DeviceFingerprintResponse {
    if (devices.len == 0) return .{};
    const found = try arena.alloc(wasmnode.Device, devices.len);
    for (devices, found) |id, *device| device.* = .{ .id = id, .healthy = true };
    const groups = try arena.alloc(wasmnode.DeviceGroup, 1);
    groups[0] = .{ .id = group, .devices = found };
    return .{ .groups = groups };
}

/// Prepares devices for a task, and answers the same when it is asked again. What it does here
/// needs no deviceRelease.
pub fn deviceReserve(arena: Allocator, request: wasmnode.DeviceReserveRequest) !wasmnode.DeviceReserveResponse {
    const asked = request.group orelse wasmnode.DeviceGroupId{};
    if (!isGroup(asked)) return wasmnode.fail(.not_found, "there is no such group of devices", .{});
    for (request.device_ids) |id| {
        if (!isDevice(id)) return wasmnode.fail(.not_found, "device {s} is gone", .{id});
    }
    const ids = try std.mem.join(arena, ",", request.device_ids);
    const env = try arena.alloc([]const u8, 1);
    env[0] = try std.mem.concat(arena, u8, &.{ "DEVICE_IDS=", ids });
    return .{ .container_edits = .{ .env = env } };
}

fn isGroup(id: wasmnode.DeviceGroupId) bool {
    return std.mem.eql(u8, id.vendor, group.vendor) and std.mem.eql(u8, id.type, group.type) and std.mem.eql(u8, id.name, group.name);
}

fn isDevice(id: []const u8) bool {
    for (devices) |device| {
        if (std.mem.eql(u8, device, id)) return true;
    }
    return false;
}

// ---- Tests ----

const testing = wasmnode.testing;
const expectEqual = std.testing.expectEqual;
const expectError = std.testing.expectError;
const expectEqualStrings = std.testing.expectEqualStrings;

test "the devices are those of the configuration" {
    const arena = testing.begin();
    defer testing.end();
    _ = try deviceConfigure(arena, .{});
    try expectEqual(0, (try deviceFingerprint(arena, .{})).groups.len);
    try expectError(error.InvalidArgument, deviceConfigure(arena, .{ .config = "{" }));

    _ = try deviceConfigure(arena, .{ .config = "{\"devices\": [\"one\", \"two\"]}" });
    const found = (try deviceFingerprint(arena, .{})).groups[0].devices;
    try expectEqual(2, found.len);
    try expectEqualStrings("two", found[1].id);
}

test "a task is told its devices" {
    const arena = testing.begin();
    defer testing.end();
    _ = try deviceConfigure(arena, .{ .config = "{\"devices\": [\"one\", \"two\"]}" });
    const edits = (try deviceReserve(arena, .{ .group = group, .device_ids = &.{ "one", "two" } })).container_edits.?;
    try expectEqualStrings("DEVICE_IDS=one,two", edits.env[0]);
    try expectError(error.NotFound, deviceReserve(arena, .{ .group = group, .device_ids = &.{"three"} }));
    try expectError(error.NotFound, deviceReserve(arena, .{ .device_ids = &.{"one"} }));
}
