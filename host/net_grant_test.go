package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMethodsOfAnEndpoint(t *testing.T) {
	for method, allowed := range map[string][3]bool{ // with none named, with POST, with any
		"GET": {true, false, true}, "HEAD": {true, false, true}, "POST": {false, true, true}, "get": {false, false, true},
	} {
		for i, e := range []HTTPEndpoint{{}, {Methods: []string{"POST"}}, {Methods: []string{"*"}}} {
			require.Equal(t, allowed[i], e.method(method), "%s %v", method, e.Methods)
		}
	}
}
