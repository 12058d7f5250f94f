package devices

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pb "github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
)

func goodFingerprint() *pb.DeviceFingerprintResponse {
	return &pb.DeviceFingerprintResponse{Groups: []*pb.DeviceGroup{
		{
			Id:      &pb.DeviceGroupId{Vendor: "nvidia", Type: "gpu", Name: "GTX 1080 Ti"},
			Devices: []*pb.Device{{Id: "b", Healthy: true}, {Id: "a", HealthDescription: "hot\nand more", PciBusId: "0000:3b:00.0"}},
			Attributes: map[string]*pb.Attribute{
				"memory": {Value: &pb.Attribute_IntValue{IntValue: 11}, Unit: "GiB"},
				"idle":   {Value: &pb.Attribute_BoolValue{}},
			},
		},
		{Id: &pb.DeviceGroupId{Vendor: "amd", Type: "gpu", Name: "x"}, Devices: []*pb.Device{{Id: "c"}}},
	}}
}

func TestAFingerprintIsTakenSortedAndWithItsValues(t *testing.T) {
	groups, err := checkDevices(goodFingerprint())
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, "amd/gpu/x", groups[0].ID.String())
	require.Equal(t, []structs.Device{
		{ID: "a", Health: structs.DeviceUnhealthy, HealthDescription: "hot; and more", PCIBusID: "0000:3b:00.0"},
		{ID: "b", Health: structs.DeviceHealthy},
	}, groups[1].Devices)
	require.True(t, groups[1].Attributes["memory"].Equal(structs.IntAttribute(11, "GiB")))
	require.True(t, groups[1].Attributes["idle"].Equal(structs.BoolAttribute(false)), "false is a value")
	none, err := checkDevices(&pb.DeviceFingerprintResponse{})
	require.NoError(t, err)
	require.Empty(t, none, "no devices is an answer")
}

// wrongFingerprints are changes of the first group of a good fingerprint, by what is said
// of them.
func wrongFingerprints() map[string]func(*pb.DeviceGroup) {
	attribute := func(a *pb.Attribute) func(*pb.DeviceGroup) {
		return func(g *pb.DeviceGroup) { g.Attributes["x"] = a }
	}
	return map[string]func(*pb.DeviceGroup){
		"groups[0]: the group's vendor is empty":                                                              func(g *pb.DeviceGroup) { g.Id = nil },
		"groups[0]: the group's type is empty":                                                                func(g *pb.DeviceGroup) { g.Id.Type = "" },
		"groups[0]: the group's name is empty":                                                                func(g *pb.DeviceGroup) { g.Id.Name = "" },
		`groups[0]: the group's name "a/b" has a '/' in it`:                                                   func(g *pb.DeviceGroup) { g.Id.Name = "a/b" },
		`groups[0]: the group's type "a\x1b[2J" has characters that do not print`:                             func(g *pb.DeviceGroup) { g.Id.Type = "a\x1b[2J" },
		`groups[0]: the group's vendor "\xff" has characters that do not print`:                               func(g *pb.DeviceGroup) { g.Id.Vendor = "\xff" },
		`groups[0]: the group's vendor " a" begins or ends with a space`:                                      func(g *pb.DeviceGroup) { g.Id.Vendor = " a" },
		"groups[0]: the group's vendor has 129 bytes, the limit is 128":                                       func(g *pb.DeviceGroup) { g.Id.Vendor = strings.Repeat("v", 129) },
		"groups[1]: amd/gpu/x is listed twice":                                                                func(g *pb.DeviceGroup) { g.Id = &pb.DeviceGroupId{Vendor: "amd", Type: "gpu", Name: "x"} },
		"groups[0]: nvidia/gpu/GTX 1080 Ti has no devices":                                                    func(g *pb.DeviceGroup) { g.Devices = nil },
		"groups[0]: nvidia/gpu/GTX 1080 Ti: devices[1]: its ID is empty":                                      func(g *pb.DeviceGroup) { g.Devices[1].Id = "" },
		`groups[0]: nvidia/gpu/GTX 1080 Ti: devices[1]: the ID "b" is listed twice`:                           func(g *pb.DeviceGroup) { g.Devices[1].Id = "b" },
		`groups[1]: amd/gpu/x: devices[0]: the ID "c" is listed twice`:                                        func(g *pb.DeviceGroup) { g.Devices[1].Id = "c" },
		`groups[0]: nvidia/gpu/GTX 1080 Ti: devices[0]: its PCI bus ID "\n" has characters that do not print`: func(g *pb.DeviceGroup) { g.Devices[0].PciBusId = "\n" },
		"groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: has no value":                                        attribute(&pb.Attribute{}),
		`groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: has a unit, "B", and is not a number`:                attribute(&pb.Attribute{Value: &pb.Attribute_StringValue{}, Unit: "B"}),
		`groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: its unit "parsec" is none of %`:                      attribute(&pb.Attribute{Value: &pb.Attribute_IntValue{}, Unit: "parsec"}),
		"groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: NaN is not a number":                                 attribute(&pb.Attribute{Value: &pb.Attribute_FloatValue{FloatValue: math.NaN()}}),
		`groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: its text "\r" has characters that do not print`:      attribute(&pb.Attribute{Value: &pb.Attribute_StringValue{StringValue: "\r"}}),
		"groups[0]: nvidia/gpu/GTX 1080 Ti: attribute x: its text has 1025 bytes, the limit is 1024":          attribute(&pb.Attribute{Value: &pb.Attribute_StringValue{StringValue: strings.Repeat("x", 1025)}}),
		"groups[0]: nvidia/gpu/GTX 1080 Ti: an attribute's name is empty":                                     func(g *pb.DeviceGroup) { g.Attributes[""] = &pb.Attribute{} },
	}
}

func TestAWrongFingerprintIsRefusedWithItsPosition(t *testing.T) {
	for want, lie := range wrongFingerprints() {
		f := goodFingerprint()
		lie(f.Groups[0])
		_, err := checkDevices(f)
		require.ErrorContains(t, err, want)
	}
}

// deviceFloods are too many of whatever there can be many of, by what is said of them.
func deviceFloods() map[string]*pb.DeviceFingerprintResponse {
	groups, devices, attributes := &pb.DeviceFingerprintResponse{}, goodFingerprint(), goodFingerprint()
	for i := range maxDeviceGroups + 1 {
		groups.Groups = append(groups.Groups, &pb.DeviceGroup{
			Id: &pb.DeviceGroupId{Vendor: "v", Type: "t", Name: fmt.Sprint(i)}, Devices: []*pb.Device{{Id: fmt.Sprint(i)}},
		})
	}
	for i := range maxDevices {
		devices.Groups[0].Devices = append(devices.Groups[0].Devices, &pb.Device{Id: fmt.Sprint(i)})
	}
	for i := range maxGroupAttributes {
		attributes.Groups[0].Attributes[fmt.Sprint(i)] = &pb.Attribute{Value: &pb.Attribute_BoolValue{}}
	}
	return map[string]*pb.DeviceFingerprintResponse{
		"65 groups, the limit is 64":     groups,
		"more than 4096 devices":         devices,
		"66 attributes, the limit is 64": attributes,
		"99999 groups, the limit is 64":  {Groups: empties[pb.DeviceGroup](99_999)},
		"the group's vendor is empty":    {Groups: []*pb.DeviceGroup{{Devices: empties[pb.Device](99_999)}}},
	}
}

func empties[T any](n int) []*T {
	all := make([]*T, n)
	for i := range all {
		all[i] = new(T)
	}
	return all
}

func TestAFloodOfDevicesIsRefused(t *testing.T) {
	for want, flood := range deviceFloods() {
		_, err := checkDevices(flood)
		require.ErrorContains(t, err, want)
	}
}

// TestAsMuchAsIsAllowedIsTaken: the limits permit what they say.
func TestAsMuchAsIsAllowedIsTaken(t *testing.T) {
	full, long, text := &pb.DeviceFingerprintResponse{}, strings.Repeat("n", 127), strings.Repeat("x", 1024)
	for i := range 64 {
		g := &pb.DeviceGroup{Id: &pb.DeviceGroupId{Vendor: long + "n", Type: "t", Name: fmt.Sprint(i)}, Attributes: map[string]*pb.Attribute{}}
		for n := range 64 {
			g.Devices = append(g.Devices, &pb.Device{Id: fmt.Sprint(i, "/", n)})
			g.Attributes[fmt.Sprint(n)] = &pb.Attribute{Value: &pb.Attribute_StringValue{StringValue: text}}
		}
		full.Groups = append(full.Groups, g)
	}
	full.Groups[0].Devices[0].Id = long + "n"
	groups, err := checkDevices(full)
	require.NoError(t, err)
	require.Len(t, groups, 64)
	figures := &pb.DeviceStats{}
	for i := range 256 {
		figures.Stats = append(figures.Stats, &pb.DeviceStat{Path: []string{fmt.Sprint(i)}, Value: &pb.StatValue{Value: &pb.StatValue_IntValue{IntValue: 1}}})
	}
	a := &pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{{Id: protoGroupID(gpu), Devices: map[string]*pb.DeviceStats{"a": figures}}}}
	_, err = checkDeviceStats(a, index{gpu: {"a": {}}}, time.Now())
	require.NoError(t, err)
	edits := &pb.ContainerEdits{Env: []string{"X=" + strings.Repeat("x", 4094)}}
	for i := range 64 {
		edits.Mounts = append(edits.Mounts, &pb.EditedMount{HostPath: "/var/cache/x", ContainerPath: fmt.Sprintf("/%02d%s", i, strings.Repeat("x", 1021)), Options: []string{"ro"}})
		if i > 0 {
			edits.Env = append(edits.Env, fmt.Sprintf("X%d=", i))
		}
	}
	r, err := checkReservation(&pb.DeviceReserveResponse{ContainerEdits: edits}, "p", deviceGrants)
	require.NoError(t, err)
	require.Len(t, r.Env, 64)
	require.Len(t, r.Mounts, 64)
}

var deviceGrants = host.Grants{
	FS:      host.FSGrant{ReadOnly: []string{"/srv"}, ReadWrite: []string{"/var/cache"}},
	Devices: host.DeviceGrant{Nodes: []string{"/dev/acme*"}},
}

// wrongReservations are refused of a plugin "p" with deviceGrants, by what is said of them.
func wrongReservations() map[string]*pb.ContainerEdits {
	env := func(v ...string) *pb.ContainerEdits { return &pb.ContainerEdits{Env: v} }
	node := func(n pb.EditedDeviceNode) *pb.ContainerEdits {
		return &pb.ContainerEdits{DeviceNodes: []*pb.EditedDeviceNode{&n}}
	}
	mount := func(host, guest string, options ...string) *pb.ContainerEdits {
		return &pb.ContainerEdits{Mounts: []*pb.EditedMount{{HostPath: host, ContainerPath: guest, Options: options}}}
	}
	return map[string]*pb.ContainerEdits{
		`env[0]: "X" is not of the form NAME=value`:                                                                env("X"),
		`env[0]: "1X" is not the name of a variable`:                                                               env("1X=1"),
		`env[0]: "" is not the name of a variable`:                                                                 env("=1"),
		"env[1]: X is listed twice":                                                                                env("X=1", "X=2"),
		"env[0]: X: its value has characters that do not print":                                                    env("X=\x00"),
		"env[0]: NOMAD_ALLOC_ID cannot be set by a device":                                                         env("NOMAD_ALLOC_ID=x"),
		"env[0]: LD_PRELOAD cannot be set by a device":                                                             env("LD_PRELOAD=/x.so"),
		"env[0]: PATH cannot be set by a device":                                                                   env("PATH=/x"),
		"env[0]: 4099 bytes, the limit is 4096":                                                                    env("X=" + strings.Repeat("x", 4097)),
		"65 edits of one kind, the limit is 64":                                                                    env(make([]string, 65)...),
		"hooks: a node runs no programs":                                                                           {Hooks: []*pb.EditedHook{{}}},
		`device_nodes[0]: path: "" is not an absolute, clean path`:                                                 node(pb.EditedDeviceNode{}),
		`device_nodes[0]: path: "dev/acme" is not an absolute, clean`:                                              node(pb.EditedDeviceNode{Path: "dev/acme"}),
		`device_nodes[0]: needs grant for /dev/sda: add plugin "p" { grant { devices { nodes = ["/dev/sda"] } } }`: node(pb.EditedDeviceNode{Path: "/dev/sda"}),
		"device_nodes[0]: needs grant for /dev/mem":                                                                node(pb.EditedDeviceNode{Path: "/dev/acme0", HostPath: "/dev/mem"}),
		`device_nodes[0]: host_path: "/dev/acme0/../sda" is not an absolute, clean path`:                           node(pb.EditedDeviceNode{Path: "/dev/acme0", HostPath: "/dev/acme0/../sda"}),
		`device_nodes[0]: permissions: "rwx" is not a subset of "rwm"`:                                             node(pb.EditedDeviceNode{Path: "/dev/acme0", Permissions: "rwx"}),
		`device_nodes[0]: permissions: "rr" is not a subset of "rwm"`:                                              node(pb.EditedDeviceNode{Path: "/dev/acme0", Permissions: "rr"}),
		`mounts[0]: needs grant for /etc/shadow: add plugin "p" { grant { fs { read_only = ["/etc"] } } }`:         mount("/etc/shadow", "/x"),
		`mounts[0]: needs grant for /etc: add plugin "p" { grant { fs { read_only = ["/etc"] } } }`:                mount("/etc", "/x"),
		`mounts[0]: needs grant for /srv/x: add plugin "p" { grant { fs { read_write = ["/srv"] } } }`:             mount("/srv/x", "/x", "rw"),
		`mounts[0]: options: "suid" is none of ro, rw, bind, rbind`:                                                mount("/srv/x", "/x", "suid"),
		"mounts[0]: options: both ro and rw":                                                                       mount("/var/cache/x", "/x", "rw", "ro"),
		"mounts[0]: container_path: / is the task's own":                                                           mount("/srv/x", "/"),
		"mounts[0]: container_path: /tmp is the task's own":                                                        mount("/srv/x", "/tmp"),
		"mounts[0]: container_path: /secrets/x would hide a part of the task's own /secrets":                       mount("/srv/x", "/secrets/x"),
		`mounts[0]: container_path: "/x/" is not an absolute, clean path`:                                          mount("/srv/x", "/x/"),
		`mounts[0]: host_path: "/srv/../etc" is not an absolute, clean path`:                                       mount("/srv/../etc", "/x"),
		"mounts[0]: container_path: 1025 bytes, the limit is 1024":                                                 mount("/srv/x", "/"+strings.Repeat("x", 1024)),
		"mounts[1]: container_path: /x is listed twice": {Mounts: []*pb.EditedMount{
			{HostPath: "/srv/a", ContainerPath: "/x"}, {HostPath: "/srv/b", ContainerPath: "/x"},
		}},
	}
}

func TestAWrongReservationIsRefusedWithItsPosition(t *testing.T) {
	for want, e := range wrongReservations() {
		_, err := checkReservation(&pb.DeviceReserveResponse{ContainerEdits: e}, "p", deviceGrants)
		require.ErrorContains(t, err, want)
	}
}

func TestAReservationHasWhatWasGranted(t *testing.T) {
	r, err := checkReservation(&pb.DeviceReserveResponse{ContainerEdits: &pb.ContainerEdits{
		Env:         []string{"EMPTY=", "LIST=a=b"},
		DeviceNodes: []*pb.EditedDeviceNode{{Path: "/dev/a", HostPath: "/dev/acme1", Permissions: "r"}},
		Mounts:      []*pb.EditedMount{{HostPath: "/var/cache/x", ContainerPath: "/x", Options: []string{"rbind", "rw"}}},
	}}, "p", deviceGrants)
	require.NoError(t, err)
	require.Equal(t, &structs.DeviceReservation{
		Env:    map[string]string{"EMPTY": "", "LIST": "a=b"},
		Nodes:  []structs.DeviceNode{{TaskPath: "/dev/a", HostPath: "/dev/acme1", Permissions: "r"}},
		Mounts: []structs.Mount{{TaskPath: "/x", HostPath: "/var/cache/x"}},
	}, r)
	r, err = checkReservation(&pb.DeviceReserveResponse{}, "p", host.Grants{})
	require.NoError(t, err)
	require.Empty(t, r.Env, "a device that needs nothing is no error")
}

// wrongStats are refused as figures of a device, by what is said of them.
func wrongStats() map[string]*pb.DeviceStats {
	number := &pb.StatValue{Value: &pb.StatValue_IntValue{IntValue: 1}}
	deep := make([]string, 9)
	for i := range deep {
		deep[i] = "x"
	}
	return map[string]*pb.DeviceStats{
		"no figures":            nil,
		"summary: has no value": {Summary: &pb.StatValue{}},
		`summary: its unit "lightyear" is none of`:                     {Summary: &pb.StatValue{Value: number.Value, Unit: "lightyear"}},
		"summary: +Inf is not a number":                                {Summary: &pb.StatValue{Value: &pb.StatValue_FloatValue{FloatValue: math.Inf(1)}}},
		"summary: denominator: NaN is not a number":                    {Summary: &pb.StatValue{Value: &pb.StatValue_FloatValue{}, Denominator: &pb.StatValue_FloatDenominator{FloatDenominator: math.NaN()}}},
		"summary: its denominator is of another type":                  {Summary: &pb.StatValue{Value: number.Value, Denominator: &pb.StatValue_FloatDenominator{}}},
		`figure "": its path has 0 elements, but has to have one to 8`: {Stats: []*pb.DeviceStat{{Value: number}}},
		`its path has 9 elements, but has to have one to 8`:            {Stats: []*pb.DeviceStat{{Path: deep, Value: number}}},
		`figure "a/": a name in its path is empty`:                     {Stats: []*pb.DeviceStat{{Path: []string{"a", ""}, Value: number}}},
		`figure "a": is listed twice`:                                  {Stats: []*pb.DeviceStat{{Path: []string{"a"}, Value: number}, {Path: []string{"a"}, Value: number}}},
		`figure "a": has no value`:                                     {Stats: []*pb.DeviceStat{{Path: []string{"a"}}}},
		`figure "a": has a unit, "W", and is not a number`:             {Stats: []*pb.DeviceStat{{Path: []string{"a"}, Value: &pb.StatValue{Value: &pb.StatValue_BoolValue{}, Unit: "W"}}}},
		"257 figures, the limit is 256":                                {Stats: make([]*pb.DeviceStat, 257)},
	}
}

func TestWrongStatsAreRefusedWithTheirPosition(t *testing.T) {
	for want, s := range wrongStats() {
		a := &pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{{Id: protoGroupID(gpu), Devices: map[string]*pb.DeviceStats{"a": s}}}}
		_, err := checkDeviceStats(a, index{gpu: {"a": {}}}, time.Now())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `acme/gpu/x1: device "a": `)
	}
	twice := &pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{{Id: protoGroupID(gpu)}, {Id: protoGroupID(gpu)}}}
	_, err := checkDeviceStats(twice, index{gpu: {}}, time.Now())
	require.EqualError(t, err, "groups[1]: acme/gpu/x1 is listed twice")
	_, err = checkDeviceStats(&pb.DeviceStatsResponse{Groups: make([]*pb.DeviceGroupStats, 65)}, nil, time.Now())
	require.EqualError(t, err, "65 groups, the limit is 64")
}

func TestFiguresOfTheFutureAreOfNow(t *testing.T) {
	now := time.Unix(1000, 0)
	for ns, want := range map[int64]time.Time{0: now, -5: now, math.MaxInt64: now, 999e9: time.Unix(999, 0)} {
		s, err := checkStats(&pb.DeviceStats{TimeNs: ns}, now)
		require.NoError(t, err)
		require.Equal(t, want, s.Time)
	}
}
