package jobfields

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/readtest"
)

const module = "github.com/wasmnode/wasmnode/"

// fieldsOf calls visit with every field that a job can have, but for those in blocks that
// are told of, or judged, as a whole.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool, visit func(owner reflect.Type, f reflect.StructField)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		visit(t, f)
		if table[t.Name()][f.Name].looksInside() {
			fieldsOf(f.Type, seen, visit)
		}
	}
}

func TestEveryFieldOfAJobHasItsFate(t *testing.T) {
	known := map[string]bool{}
	fieldsOf(reflect.TypeFor[nomad.Job](), map[reflect.Type]bool{}, func(owner reflect.Type, f reflect.StructField) {
		known[owner.Name()+"."+f.Name] = true
		fate := table[owner.Name()][f.Name]
		require.NotEqual(t, unknown, fate.kind, "%s.%s: is it acted on, refused or warned about?", owner.Name(), f.Name)
		switch fate.kind {
		case isDone, isJudged:
			require.NotEmpty(t, fate.by, "%s.%s", owner.Name(), f.Name)
		case isInside:
		default:
			require.NotEmpty(t, fate.text, "%s.%s", owner.Name(), f.Name)
		}
	})
	for owner, fields := range table {
		for field := range fields {
			require.True(t, known[owner+"."+field], "%s.%s is no field that is looked at", owner, field)
		}
	}
}

// What moves it is canonicalising, not us: if it stops, the field is ignored.
func TestWhatIsMovedArrives(t *testing.T) {
	for owner, fields := range table {
		for field, fate := range fields {
			if fate.kind != isMoved {
				continue
			}
			to, into, _ := strings.Cut(fate.text, ".")
			require.Equal(t, []string{"Job", "TaskGroup"}, []string{owner, to})
			job := nomad.NewServiceJob("j", "j", "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 1))
			from := reflect.ValueOf(job).Elem().FieldByName(field)
			from.Set(reflect.New(from.Type().Elem()))
			first := from.Elem().Field(0)
			first.Set(reflect.New(first.Type().Elem()))
			first.Elem().SetInt(7)
			job.Canonicalize()
			arrived := reflect.ValueOf(job.TaskGroups[0]).Elem().FieldByName(into).Elem().Field(0).Elem()
			require.EqualValues(t, 7, arrived.Int(), "%s.%s", owner, field)
		}
	}
}

// TestWhatIsDoneIsReadByWhoDoesIt holds the table to the code: the package that is said to
// act on a field reads that very field, elsewhere than where a job is only validated.
func TestWhatIsDoneIsReadByWhoDoesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it type-checks the packages that act on fields")
	}
	reads := readers(t)
	for owner, fields := range table {
		for field, fate := range fields {
			if fate.by != "" {
				assert.Contains(t, reads[owner+"."+field], fate.by, "%s.%s is said to be acted on by %s, which does not read it", owner, field, fate.by)
			}
		}
	}
}

// readers returns, by type and field, the packages that read a field of Nomad's types.
func readers(t *testing.T) map[string][]string {
	t.Helper()
	acting := map[string]bool{}
	for _, fields := range table {
		for _, fate := range fields {
			if fate.by != "" {
				acting[module+fate.by] = true
			}
		}
	}
	reads := readtest.Fields(t, "github.com/hashicorp/nomad/api", slices.Sorted(maps.Keys(acting)), "validate")
	for _, by := range reads {
		for i := range by {
			by[i] = strings.TrimPrefix(by[i], module)
		}
	}
	return reads
}
