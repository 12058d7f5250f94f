package template_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
)

// found are services by namespace and name; a missing namespace cannot be asked.
type found map[string]map[string][]*structs.ServiceRegistration

func (f found) FindServices(_ context.Context, namespace, name string) (list []*structs.ServiceRegistration, err error) {
	in, ok := f[namespace]
	if !ok {
		return nil, errors.New("not now")
	}
	if name != "" {
		return in[name], nil
	}
	for _, all := range in {
		list = append(list, all...)
	}
	slices.SortFunc(list, func(a, b *structs.ServiceRegistration) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func services() found {
	api := []*structs.ServiceRegistration{
		{ID: "abc001", ServiceName: "s1", Address: "10.0.0.1", Port: 8001, Tags: []string{"v1", "blue"}, NodeID: "n1", Datacenter: "dc1", JobID: "j", AllocID: "a1"},
		{ID: "abc002", ServiceName: "s1", Address: "10.0.0.2", Port: 8002, Tags: []string{"v2"}},
	}
	return found{"default": {"s1": api, "db": {{ID: "abc003", ServiceName: "db", Tags: []string{"sql"}}}}, "other": {}}
}

func TestServicesAreLookedUp(t *testing.T) {
	in := input(t, map[string]string{"NOMAD_REGION": "global"})
	in.Services, in.Namespace = services(), "default"
	for data, want := range map[string]string{
		`{{ range nomadService "s1" }}{{ .Address }}:{{ .Port }} {{ end }}`:                                                                          "10.0.0.1:8001 10.0.0.2:8002 ",
		`{{ with index (nomadService "s1") 0 }}{{ .ID }} {{ .Name }} {{ .Node }} {{ .Datacenter }} {{ .JobID }} {{ .AllocID }} {{ .Tags }}{{ end }}`: "abc001 s1 n1 dc1 j a1 [blue v1]",
		`{{ range nomadService "v2.s1" }}{{ .ID }}{{ end }}`:                                                                                         "abc002",
		`{{ range nomadService 1 "k" "s1" }}x{{ end }}{{ range nomadService 9 "k" "s1" }}y{{ end }}`:                                                 "xyy",
		`{{ range nomadService "none" }}x{{ else }}none{{ end }}`:                                                                                    "none",
		`{{ len (nomadService "s1?ns=other") }}{{ len (nomadService "s1?ns=default@global") }}`:                                                      "02",
		`{{ range nomadServices }}{{ .Name }}{{ .Tags }} {{ end }}`:                                                                                  "db[sql] s1[blue v1 v2] ",
		`{{ len (nomadServices "?ns=other") }}`:                                                                                                      "0",
		`{{ range nomadService "s1" }}{{ if .Tags.Contains "v1" }}{{ .ID }}{{ end }}{{ if .Tags | contains "v2" }}{{ .ID }}{{ end }} {{ end }}`:      "abc001 abc002 ",
	} {
		out, err := render(t, in, inline(data))
		require.NoError(t, err, data)
		require.Equal(t, want, string(out.Content), data)
	}
}

func TestServicesThatCannotBeLookedUp(t *testing.T) {
	in := input(t, map[string]string{"NOMAD_REGION": "global"})
	in.Services, in.Namespace = services(), "default"
	for data, want := range map[string]string{
		`{{ nomadService }}`:                     "it takes a service's name, or a count, a key and a name",
		`{{ nomadService 1 "s1" }}`:              "it takes a service's name",
		`{{ nomadService 1 }}`:                   "1 is not the name of a service",
		`{{ nomadService "a b" }}`:               "a b is not the name of a service",
		`{{ nomadService -1 "k" "s1" }}`:         "a count and a key have to be before the name",
		`{{ nomadService 1 "" "s1" }}`:           "a count and a key have to be before the name",
		`{{ nomadService "s1@eu" }}`:             `no path to region "eu"`,
		`{{ nomadService "s1?ns=unreachable" }}`: "not now",
		`{{ nomadServices "x" }}`:                "is neither a namespace nor a region",

		`{{ nomadService "` + strings.Repeat("s", 64) + `" }}`:        "is longer than a service's name: at most 63 bytes",
		`{{ nomadService "s1?ns=` + strings.Repeat("n", 129) + `" }}`: "is longer than a namespace's name: at most 128 bytes",
		`{{ nomadServices "?ns=` + strings.Repeat("n", 129) + `" }}`:  "is longer than a namespace's name: at most 128 bytes",
	} {
		_, err := render(t, in, inline(data))
		require.ErrorContains(t, err, want, data)
	}
	_, err := render(t, in, inline(`{{ nomadService "s1?ns=unreachable" }}`))
	require.ErrorIs(t, err, template.ErrFile, "it is tried again")
	in.Services = nil
	_, err = render(t, in, inline(`{{ nomadServices }}`))
	require.ErrorContains(t, err, "no services can be looked up here")
}

// What is looked up is remembered and looked at again and again, so that it has to have an end.
func TestARenderingLooksUpSoManyServices(t *testing.T) {
	in := input(t, nil)
	in.Services, in.Namespace = services(), "default"
	const long = `{{ nomadService "sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss" }}`
	_, err := render(t, in, inline(long))
	require.NoError(t, err, "a name of 63 bytes")
	const looks = `{{ range loop %d }}{{ $x := nomadService (printf "none-%%d" .) }}{{ end }}{{ %s }}`
	out, err := render(t, in, inline(fmt.Sprintf(looks, 255, `nomadService "s1" | len`)))
	require.NoError(t, err)
	require.Len(t, out.Lookups, 256)
	out, err = render(t, in, inline(fmt.Sprintf(looks, 256, `nomadService "none-7" | len`)))
	require.NoError(t, err, "one of them once more")
	require.Len(t, out.Lookups, 256)
	for _, data := range []string{
		fmt.Sprintf(looks, 256, `nomadService "s1" | len`), fmt.Sprintf(looks, 256, `nomadServices | len`), fmt.Sprintf(looks, 1_000_000, `1`),
	} {
		out, err = render(t, in, inline(data))
		require.ErrorContains(t, err, "it looks up more than 256 different services and variables")
		require.Len(t, out.Lookups, 256)
	}
	_, err = render(t, in, inline(`{{ range loop 500000 }}{{ $x := nomadService "none" }}{{ end }}`))
	require.ErrorContains(t, err, "bytes of text on the way", "also what is not there costs something")
}

func TestARenderingTellsWhichServicesItDependsOn(t *testing.T) {
	in := input(t, nil)
	all := services()
	in.Services, in.Namespace = all, "default"
	out, err := render(t, in, inline(`{{ nomadService "s1" }}{{ nomadService "later" }}{{ nomadServices }}`))
	require.NoError(t, err)
	require.Len(t, out.Lookups, 3)
	stamp := func(key string) string { return in.LookupStamp(t.Context(), key, out.Lookups[key]) }
	for key, before := range out.Lookups {
		require.Equal(t, before, stamp(key), key)
	}
	changed := all["default"]["s1"][0].Copy()
	changed.ModifyIndex++
	all["default"]["s1"] = append(slices.Clone(all["default"]["s1"][1:]), changed)
	require.NotEqual(t, out.Lookups["service default/s1"], stamp("service default/s1"))
	require.NotEqual(t, out.Lookups["service default/"], stamp("service default/"))
	require.Equal(t, out.Lookups["service default/later"], stamp("service default/later"))
	delete(all, "default")
	require.Equal(t, out.Lookups["service default/s1"], stamp("service default/s1"), "what cannot be asked has not changed")
}
