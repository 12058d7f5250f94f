package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A page of variables, which is read from its place on, is what is found by going through all of
// them, sorted: for every prefix, filter, direction and token, also one of a variable that is gone.
func TestAPageOfVariablesIsOfTheWholeList(t *testing.T) {
	cp := plane(t)
	for _, name := range []string{"a", "a-b"} {
		_, err := cp.PutNamespace(nomad.Namespace{Name: name})
		require.NoError(t, err)
	}
	var all []*nomad.VariableMetadata
	put := func(namespace, path string) {
		v, _, err := cp.PutVariable(&nomad.Variable{Namespace: namespace, Path: path, Items: items("k", "v")}, nil)
		require.NoError(t, err)
		all = append(all, v.Metadata())
	}
	for i := range 300 { // more than are read at once
		put("a-b", fmt.Sprintf("app/%03d", (i*7)%300))
	}
	for _, path := range []string{"~", "b/c", "b", "b-c", "app", "app/1", "Z", "0"} {
		put("default", path)
		put("a", path)
	}
	slices.SortFunc(all, func(a, b *nomad.VariableMetadata) int {
		return strings.Compare(a.Namespace+"\x00"+a.Path, b.Namespace+"\x00"+b.Path)
	})
	api := serve(t, cp, nil).Config.Handler
	rapid.Check(t, func(t *rapid.T) {
		namespace := rapid.SampledFrom([]string{"*", "default", "a", "a-b", "none"}).Draw(t, "namespace")
		prefix := rapid.SampledFrom([]string{"", "", "app", "app/", "app/1", "b", "none", "~", "\xff"}).Draw(t, "prefix")
		filter := rapid.SampledFrom([]string{"", "", "7"}).Draw(t, "filter")
		reverse := rapid.Bool().Draw(t, "reverse")
		perPage := rapid.SampledFrom([]int{0, 1, 2, 100, 128, 129, 400}).Draw(t, "per page")
		token := rapid.OneOf(rapid.Just(""), rapid.Custom(func(t *rapid.T) string {
			v := rapid.SampledFrom(all).Draw(t, "token")
			return v.Namespace + "." + v.Path + rapid.SampledFrom([]string{"", "", "-gone"}).Draw(t, "gone")
		})).Draw(t, "token")

		want, wantNext := []*nomad.VariableMetadata{}, ""
		from := strings.Replace(token, ".", "\x00", 1)
		begun := token == ""
		list := slices.Clone(all)
		if reverse {
			slices.Reverse(list)
		}
		for _, v := range list {
			place := v.Namespace + "\x00" + v.Path
			if begun = begun || place == from || place < from == reverse; !begun {
				continue
			}
			if namespace != "*" && v.Namespace != namespace || !strings.HasPrefix(v.Path, prefix) || !strings.Contains(v.Path, filter) {
				continue
			}
			if perPage > 0 && len(want) == perPage {
				wantNext = v.Namespace + "." + v.Path
				break
			}
			want = append(want, v)
		}

		q := url.Values{"namespace": {namespace}, "prefix": {prefix}, "next_token": {token}, "reverse": {fmt.Sprint(reverse)}}
		if perPage > 0 {
			q.Set("per_page", fmt.Sprint(perPage))
		}
		if filter != "" {
			q.Set("filter", fmt.Sprintf("Path contains %q", filter))
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/vars?"+q.Encode(), nil))
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		var got []*nomad.VariableMetadata
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, want, got)
		require.Equal(t, wantNext, w.Header().Get("X-Nomad-NextToken"))
	})
}
