package registration_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/registration"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// workload is a task, or the group, with one service, on a node with two ports.
func workload(s *nomad.Service, ofTask bool) *registration.Workload {
	task := &nomad.Task{Name: "app"}
	group := &nomad.TaskGroup{Name: new("web"), Tasks: []*nomad.Task{task}}
	if ofTask {
		task.Services = []*nomad.Service{s}
	} else {
		group.Services = []*nomad.Service{s}
	}
	a := &structs.Allocation{
		ID: "a1", Name: "shop.web[3]", Namespace: "default", JobID: "shop-id", TaskGroup: "web",
		Job: &nomad.Job{ID: new("shop-id"), Name: new("shop"), TaskGroups: []*nomad.TaskGroup{group}, Meta: map[string]string{"tier": "gold"}},
		Resources: structs.AllocatedResources{
			Tasks: map[string]*structs.TaskResources{"app": {}},
			Ports: []structs.AllocatedPort{{Label: "http", HostIP: "10.0.0.5", Value: 20001, To: 8080}, {Label: "raw", HostIP: "10.0.0.5", Value: 20002}},
		},
	}
	node := &structs.Node{ID: "n1", Datacenter: "dc9", Attributes: map[string]string{"unique.network.ip-address": "10.0.0.5"}}
	w := &registration.Workload{Node: node, Alloc: a, Env: taskenv.NewBuilder(node, a, &nomad.Task{}).Build()}
	if ofTask {
		w.Task, w.Env = task, taskenv.NewBuilder(node, a, task).Build()
	}
	return w
}

func TestARegistrationTellsWhoseTheServiceIs(t *testing.T) {
	for name, c := range map[string]struct {
		ofTask bool
		id     string
		owner  string
	}{
		"of a task":    {true, "_nomad-task-a1-app-api-http", "app"},
		"of the group": {false, "_nomad-task-a1-group-web-api-http", "group-web"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := workload(&nomad.Service{Name: "api", Provider: "nomad", PortLabel: "http", Tags: []string{"a", "b"}}, c.ofTask).Services()
			require.NoError(t, err)
			require.Equal(t, []*structs.ServiceRegistration{{
				ID: c.id, ServiceName: "api", Namespace: "default", NodeID: "n1", Datacenter: "dc9", JobID: "shop-id", AllocID: "a1",
				Workload: c.owner, Tags: []string{"a", "b"}, Address: "10.0.0.5", Port: 20001,
			}}, list)
		})
	}
}

func TestAddressesFollowTheModeAndThePort(t *testing.T) {
	driver := &registration.DriverNetwork{IP: "172.17.0.2", Ports: map[string]int{"old": 9000}}
	advertised := &registration.DriverNetwork{IP: "172.17.0.2", Advertise: true}
	own := &structs.AllocNetwork{Mode: "bridge", Address: "172.26.64.7", AddressIPv6: "fd00::7"}
	for name, c := range map[string]struct {
		service nomad.Service
		group   bool // it is the group's
		asks    bool // the group has a network block
		driver  *registration.DriverNetwork
		network *structs.AllocNetwork
		ip      string
		port    int
		fault   string
	}{
		"auto is the host's":                     {service: nomad.Service{PortLabel: "http"}, ip: "10.0.0.5", port: 20001},
		"auto with a driver's network":           {service: nomad.Service{PortLabel: "http"}, driver: driver, ip: "10.0.0.5", port: 20001},
		"auto with one that is to be advertised": {service: nomad.Service{PortLabel: "http"}, driver: advertised, ip: "172.17.0.2", port: 8080},
		"host, whatever there is":                {service: nomad.Service{PortLabel: "http", AddressMode: "host"}, driver: advertised, network: own, ip: "10.0.0.5", port: 20001},
		"host with a number":                     {service: nomad.Service{PortLabel: "8500", AddressMode: "host"}, port: 8500},
		"host without a port":                    {service: nomad.Service{AddressMode: "host"}},
		"host without a port, in a network":      {service: nomad.Service{AddressMode: "host"}, group: true, asks: true, ip: "10.0.0.5"},
		"host with an unknown label":             {service: nomad.Service{PortLabel: "nope"}, fault: `unable to get address for service "api": invalid port "nope": port label not found`},
		"host with port 0":                       {service: nomad.Service{PortLabel: "0"}, fault: `invalid port: "0": port must be >0`},
		"host with too large a number":           {service: nomad.Service{PortLabel: "65536"}, fault: `invalid port "65536"`},
		"driver":                                 {service: nomad.Service{PortLabel: "http", AddressMode: "driver"}, driver: driver, ip: "172.17.0.2", port: 8080},
		"driver, a port that is not mapped":      {service: nomad.Service{PortLabel: "raw", AddressMode: "driver"}, driver: driver, ip: "172.17.0.2", port: 20002},
		"driver, a port of the driver's":         {service: nomad.Service{PortLabel: "old", AddressMode: "driver"}, driver: driver, ip: "172.17.0.2", port: 9000},
		"driver with a number":                   {service: nomad.Service{PortLabel: "81", AddressMode: "driver"}, driver: driver, ip: "172.17.0.2", port: 81},
		"driver without a port":                  {service: nomad.Service{AddressMode: "driver"}, driver: driver, ip: "172.17.0.2"},
		"driver that tells none":                 {service: nomad.Service{PortLabel: "http", AddressMode: "driver"}, fault: `cannot use address_mode="driver": no driver network exists`},
		"alloc":                                  {service: nomad.Service{PortLabel: "http", AddressMode: "alloc"}, network: own, ip: "172.26.64.7", port: 8080},
		"alloc of the group":                     {service: nomad.Service{PortLabel: "raw", AddressMode: "alloc"}, group: true, network: own, ip: "172.26.64.7", port: 20002},
		"alloc with a number":                    {service: nomad.Service{PortLabel: "82", AddressMode: "alloc"}, network: own, ip: "172.26.64.7", port: 82},
		"alloc without a network":                {service: nomad.Service{PortLabel: "http", AddressMode: "alloc"}, fault: `cannot use address_mode="alloc": no allocation network status reported`},
		"an address of its own":                  {service: nomad.Service{PortLabel: "http", Address: "${attr.unique.network.ip-address}.example.com"}, ip: "10.0.0.5.example.com", port: 20001},
		"an address of its own, with a number":   {service: nomad.Service{PortLabel: "443", Address: "example.com"}, ip: "example.com", port: 443},
		"an address of its own, without a port":  {service: nomad.Service{Address: "example.com"}, ip: "example.com"},
		"an address of its own, in a mode":       {service: nomad.Service{PortLabel: "http", Address: "example.com", AddressMode: "host"}, fault: `cannot use custom advertise address with "host" address mode`},
		"a mode that is none":                    {service: nomad.Service{PortLabel: "http", AddressMode: "nope"}, fault: `invalid address mode "nope"`},
	} {
		t.Run(name, func(t *testing.T) {
			c.service.Name = "api"
			w := workload(&c.service, !c.group)
			w.Driver, w.Network = c.driver, c.network
			if c.asks {
				w.Alloc.Group().Networks = []*nomad.NetworkResource{{}}
			}
			list, err := w.Services()
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				require.Empty(t, list)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.ip, list[0].Address)
			require.Equal(t, c.port, list[0].Port)
		})
	}
}

func TestReferencesInAServiceAreReplaced(t *testing.T) {
	s := &nomad.Service{
		Name: "${BASE}-${NOMAD_META_tier}-${JOB}-${TASKGROUP}-${TASK}", PortLabel: "${NOMAD_META_port}",
		Tags: []string{"n${NOMAD_ALLOC_INDEX}", "dc-${node.datacenter}", "${nothing.known}"},
	}
	w := workload(s, true)
	w.Alloc.Job.Meta["port"] = "http"
	w.Env = taskenv.NewBuilder(w.Node, w.Alloc, w.Task).Build()
	list, err := w.Services()
	require.NoError(t, err)
	require.Equal(t, "shop-web-app-gold-shop-web-app", list[0].ServiceName)
	require.Equal(t, []string{"n3", "dc-dc9", "${nothing.known}"}, list[0].Tags)
	require.Equal(t, 20001, list[0].Port)
	require.Equal(t, "_nomad-task-a1-app-shop-web-app-gold-shop-web-app-http", list[0].ID)
}

func TestACanaryHasTheTagsOfCanaries(t *testing.T) {
	s := &nomad.Service{Name: "api", Tags: []string{"live"}, CanaryTags: []string{"canary"}}
	for _, c := range []struct {
		canary bool
		tags   []string
		want   string
	}{{false, s.CanaryTags, "live"}, {true, s.CanaryTags, "canary"}, {true, nil, "live"}} {
		of := *s
		of.CanaryTags = c.tags
		w := workload(&of, true)
		w.Alloc.DeploymentStatus = &structs.DeploymentStatus{Canary: c.canary}
		list, err := w.Services()
		require.NoError(t, err)
		require.Equal(t, []string{c.want}, list[0].Tags)
	}
}

func TestServicesOfOthersAreNotRegistered(t *testing.T) {
	list, err := workload(&nomad.Service{Name: "api", Provider: "consul"}, true).Services()
	require.NoError(t, err)
	require.Empty(t, list)
}

// A reference of a few bytes may stand for a text of any size.
func TestWhatReferencesStandForIsBounded(t *testing.T) {
	const rfc = "name: Service name must be valid per RFC 1123"
	const size = "name, port, address and tags have more than 16384 bytes with what their references stand for"
	many := func(tag string, n int) []string { return slices.Repeat([]string{tag}, n) }
	for name, c := range map[string]struct {
		service nomad.Service
		fault   string
	}{
		"a name of 63 bytes":                    {service: nomad.Service{Name: "${NOMAD_META_62}x"}},
		"of 64":                                 {service: nomad.Service{Name: "${NOMAD_META_62}xy"}, fault: rfc},
		"of 40,000":                             {service: nomad.Service{Name: "s${NOMAD_META_40000}"}, fault: size},
		"a name of what is not known":           {service: nomad.Service{Name: "s-${nothing.known}"}, fault: rfc},
		"a name with spaces":                    {service: nomad.Service{Name: "s${NOMAD_META_odd}"}, fault: rfc},
		"a job's name over and over":            {service: nomad.Service{Name: strings.Repeat("${BASE}", 10_000)}, fault: size},
		"no name":                               {service: nomad.Service{Name: "${NOMAD_META_none}"}, fault: rfc},
		"a tag as large as there is room":       {service: nomad.Service{Tags: []string{"${NOMAD_META_16381}"}}},
		"a byte larger":                         {service: nomad.Service{Tags: []string{"${NOMAD_META_16381}x"}}, fault: size},
		"tags that are so together":             {service: nomad.Service{Tags: many("${NOMAD_META_62}xx", 255)}},
		"larger together":                       {service: nomad.Service{Tags: many("${NOMAD_META_62}xxx", 255)}, fault: size},
		"as many tags as there can be":          {service: nomad.Service{Tags: many("", 256)}},
		"more":                                  {service: nomad.Service{Tags: many("", 257)}, fault: "it has 257 tags, at most 256 are possible"},
		"an address as large as there is room":  {service: nomad.Service{Address: "${NOMAD_META_16381}"}},
		"a larger address":                      {service: nomad.Service{Address: "${NOMAD_META_40000}"}, fault: size},
		"a port's label that is none":           {service: nomad.Service{PortLabel: "${NOMAD_META_40000}"}, fault: size},
		"a tag that would have a billion bytes": {service: nomad.Service{Tags: []string{strings.Repeat("${NOMAD_META_40000}", 25_000)}}, fault: size},
	} {
		t.Run(name, func(t *testing.T) {
			c.service.Name = cmp.Or(c.service.Name, "api")
			w := workload(&c.service, true)
			for _, n := range []int{62, 16381, 40000} {
				w.Alloc.Job.Meta[strconv.Itoa(n)] = strings.Repeat("a", n)
			}
			w.Alloc.Job.Meta["odd"], w.Alloc.Job.Meta["none"] = "a b", ""
			w.Env = taskenv.NewBuilder(w.Node, w.Alloc, w.Task).Build()
			list, err := w.Services()
			if c.fault == "" {
				require.NoError(t, err)
				require.NoError(t, w.Check())
				require.Less(t, len(list[0].ID), 256)
				return
			}
			require.ErrorContains(t, err, c.fault)
			require.ErrorContains(t, w.Check(), c.fault)
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

// The services of one task, or of one group itself, are in memory together.
func TestTheServicesOfOneOwnerAreBounded(t *testing.T) {
	services := func(n, size int) *registration.Workload {
		w := workload(nil, false)
		w.Alloc.Group().Services = nil
		for i := range n {
			s := &nomad.Service{Name: fmt.Sprintf("s-%03d", i), Tags: []string{strings.Repeat("t", size-5)}}
			w.Alloc.Group().Services = append(w.Alloc.Group().Services, s)
		}
		return w
	}
	for _, c := range []struct {
		n, size int
		fault   string
	}{
		{64, 1 << 10, ""}, {65, 5, "there are more than 64 services"}, {4, 16 << 10, ""},
		{5, 16 << 10, "all of a task or of a group itself 65536"}, {64, 1<<10 + 1, "all of a task or of a group itself 65536"},
	} {
		list, err := services(c.n, c.size).Services()
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
		require.Len(t, list, c.n)
	}
}
