package server

import "github.com/keelson-io/keelson/internal/api/program"

// This file has the version of the program.

// VersionInfo is the version of the program and of the API that it serves.
type VersionInfo struct {
	Program string `json:"program"`
	program.Version
}

// Version is this program's version.
func Version() VersionInfo {
	return VersionInfo{Program: program.Release(), Version: program.Version{}.Fill()}
}
