package cli_test

// The tests run the program with all of its rooms. Only an external test can import them, because they import cli.
import _ "runner/cmd/runner/rooms"
