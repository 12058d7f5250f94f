// Package devices holds device plugins, one a folder: what makes the hardware of a
// machine available to tasks.
package devices
