package ui

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var variable = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)

// luminance is WCAG's relative luminance of a color such as 1b1d26.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(color, 16, 32)
	require.NoError(t, err)
	linear := func(c uint64) float64 {
		if v := float64(c) / 255; v > 0.04045 {
			return math.Pow((v+0.055)/1.055, 2.4)
		} else {
			return v / 12.92
		}
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8&0xff) + 0.0722*linear(n&0xff)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

// TestContrast computes what WCAG AA asks for, of the style's own colors: 4.5 for text, 3 for
// what is no text. The style has no color but these.
func TestContrast(t *testing.T) {
	b, err := static.ReadFile("static/page.css")
	require.NoError(t, err)
	css := string(b)
	light, dark, found := strings.Cut(css, "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for name, part := range map[string]string{"light": light, "dark": dark} {
		t.Run(name, func(t *testing.T) {
			colors := map[string]string{}
			for _, m := range variable.FindAllStringSubmatch(part, -1) {
				colors[m[1]] = m[2]
			}
			require.Len(t, colors, 12, "%v", colors)
			for _, on := range []string{"back", "panel"} {
				for _, text := range []string{"text", "soft", "link"} {
					require.GreaterOrEqual(t, contrast(t, colors[text], colors[on]), 4.5, "%s on %s", text, on)
				}
				require.GreaterOrEqual(t, contrast(t, colors["line"], colors[on]), 3.0, "line on %s", on)
			}
			for _, mood := range []string{"well", "unwell", "waiting"} {
				require.GreaterOrEqual(t, contrast(t, colors[mood], colors[mood+"-back"]), 4.5, mood)
			}
		})
	}
	require.Empty(t, regexp.MustCompile(`(?m)^\s+(?:color|background|border)[^;]*(#[0-9a-f]+|rgb|hsl)`).FindAllString(css, -1), "colors beside the variables")
	require.InDelta(t, 21, contrast(t, "ffffff", "000000"), 0.01)
}

func TestCountsOfBytes(t *testing.T) {
	for n, want := range map[any]string{
		int64(0): "0 B", int64(1023): "1023 B", uint64(1024): "1.0 KiB", uint64(1 << 20): "1.0 MiB", int64(3 << 29): "1.5 GiB", uint64(math.MaxUint64): "16777216.0 TiB",
	} {
		require.Equal(t, want, byteCount(n), fmt.Sprint(n))
	}
}

func TestAJobsPathNamesItsNamespace(t *testing.T) {
	for _, c := range [][2]string{{"default", "web"}, {"a-b", "a@b"}, {"n", "a/b c?d#e%f"}, {"n", ""}} {
		to := jobPath(c[0], c[1])
		require.NotContains(t, strings.TrimPrefix(to, Prefix+"jobs/"), "/")
	}
	namespace, id := splitJob("a@b@n", "m")
	require.Equal(t, [2]string{"n", "a@b"}, [2]string{namespace, id})
	namespace, id = splitJob("web", "")
	require.Equal(t, [2]string{"default", "web"}, [2]string{namespace, id})
	namespace, _ = splitJob("web", "m")
	require.Equal(t, "m", namespace)
}
