package template_test

import (
	"fmt"
	"strings"
	"testing"

	sockaddr "github.com/hashicorp/go-sockaddr/template"
	"github.com/stretchr/testify/require"
)

func TestAddressesAreGoSockaddrs(t *testing.T) {
	in := input(t, nil)
	for _, query := range []string{
		"GetAllInterfaces | include `name` `^lo$` | include `type` `IPv4` | attr `address`", "GetInterfaceIP `lo`", "GetInterfaceIP `none`",
		"GetAllInterfaces | include `name` `^lo$` | sort `-address` | limit 1 | join `size` ` `",
	} {
		want, err := sockaddr.Parse("{{ " + query + " }}")
		require.NoError(t, err)
		out, err := renderAny(t, in, fmt.Sprintf("{{ sockaddr %q }}", query))
		require.NoError(t, err)
		require.Equal(t, want, out, query)
	}
	out, err := renderAny(t, in, "{{ sockaddr \"GetAllInterfaces | include\" \"`name` `^lo$` | attr\" \"`name`\" }}")
	require.NoError(t, err)
	require.Equal(t, "lo", out, "arguments are one expression")
}

func TestWhatIsAskedAboutAddressesIsBounded(t *testing.T) {
	in := input(t, nil)
	for asked, want := range map[string]string{
		"{{ sockaddr `x }}{{ range GetAllInterfaces` }}":             "one expression, without {{ and }}",
		"{{ sockaddr `" + strings.Repeat("a", 1025) + "` }}":         "has 1025 bytes, more than 1024",
		"{{ range loop 17 }}{{ sockaddr (printf `%d` .) }}{{ end }}": "more than 16 different addresses",
		"{{ sockaddr `GetNone` }}":                                   `function "GetNone" not defined`,
	} {
		_, err := renderAny(t, in, asked)
		require.ErrorContains(t, err, want)
	}
	_, err := renderAny(t, in, "{{ range loop 100 }}{{ sockaddr `1` }}{{ end }}")
	require.NoError(t, err, "the same is asked once")
}
