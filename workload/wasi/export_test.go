package wasi

// InNetwork is inNetwork.
var InNetwork = inNetwork
