//go:build !race

package standalone

const raced = false
