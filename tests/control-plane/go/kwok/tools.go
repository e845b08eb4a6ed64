//go:build tools

// Package tools names the program that go.mod and go.sum pin. It is never compiled.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
