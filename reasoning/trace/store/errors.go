package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"runner/hint"
)

// Error says why a store could not do something.
type Error struct {
	// Code names the error for programs.
	Code, reason string
	hint.Advice
}

func (e *Error) Error() string { return "traces: " + e.reason }

// The errors, compared with errors.Is.
var (
	ErrNotFound error = &Error{
		"trace_not_found", "there is no trace with this id",
		"see runner trace list",
	}
	ErrErased error = &Error{
		"trace_erased", "it was erased",
		"only its entry in the chain is left",
	}
	ErrOpen error = &Error{
		"trace_open", "it is still being written",
		"wait until the run has ended",
	}
	ErrTooLarge error = &Error{
		"trace_too_large", "the trace is longer than the limit",
		"raise the limit, or ask for less",
	}
	ErrFull error = &Error{
		"trace_store_full", "the store has reached its size limit",
		"erase traces, or raise the limit",
	}
	ErrInLog error = &Error{
		"trace_in_log", "it was erased, but another program keeps a log with its bytes open",
		"erase it again after the other program has ended",
	}
	ErrNoSigner error = &Error{
		"trace_no_signing_key", "sign.key is missing, so nothing can be added to the store",
		"restore it from a backup, or begin a new folder; reading and checking need only sign.pub",
	}
	ErrNotHead error = &Error{
		"trace_not_head", "not a head as runner trace verify prints it",
		"give the text that begins with rthead1-",
	}
	// ErrNoPublic means that there is no public key to check signatures with.
	ErrNoPublic error = &Error{
		"trace_no_public_key", "sign.pub is missing, so signatures cannot be checked",
		"restore sign.pub, or give a head that was kept elsewhere (--head)",
	}
	// ErrPublic means that sign.pub and sign.key do not belong together.
	ErrPublic error = &Error{
		"trace_wrong_public_key", "sign.pub does not belong to sign.key: one of them was exchanged",
		"restore both from a backup, and check the store with a head that was kept elsewhere (--head)",
	}
	// ErrAltered means that the end of the chain is not as this store left it.
	ErrAltered error = &Error{
		"trace_store_altered", "the store was altered, and nothing is added to it",
		"see runner trace verify; restore the folder from a backup, or begin a new one",
	}
	// ErrEmptied means that the folder held a store, and its database is now missing or empty.
	ErrEmptied error = &Error{
		"trace_store_emptied", "traces.db is empty or missing, but the folder held a store: its traces were removed",
		"restore the folder from a backup, or begin a new one",
	}
	ErrDamaged error = &Error{
		"trace_store_damaged", "traces.db is damaged, or is not a store of traces",
		"restore the folder from a backup, or begin a new one",
	}
	ErrReadOnly error = &Error{
		"trace_store_read_only", "the store cannot be written",
		"check the folder's permissions, or name another folder",
	}
	ErrNoRoom error = &Error{
		"trace_disk_full", "the disk is full",
		"erase traces, or free some space",
	}
	ErrBusy error = &Error{
		"trace_store_busy", "another program is writing to the store",
		"try again",
	}
)

// errClosed means that a Writer was closed or abandoned.
var errClosed = errors.New("traces: the writer is closed")

// named wraps an error of the system or of SQLite in the Error that describes it, if there is one.
func named(err error) error {
	if err == nil {
		return nil
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return err
	}
	if name := nameOf(err); name != nil {
		return fmt.Errorf("%w: %w", name, err)
	}
	return fmt.Errorf("traces: %w", err)
}

// nameOf returns the Error that describes an error of the system or of SQLite, or nil.
func nameOf(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []struct {
		name error
		any  []error
	}{
		{ErrNoRoom, []error{syscall.ENOSPC, syscall.EDQUOT}},
		{ErrReadOnly, []error{syscall.EROFS, syscall.EACCES, syscall.EPERM}},
	} {
		for _, target := range known.any {
			if errors.Is(err, target) {
				return known.name
			}
		}
	}
	e := (*sqlite.Error)(nil)
	if !errors.As(err, &e) {
		// A column of an altered database can have another type. Package sql has no typed error for that.
		if strings.Contains(err.Error(), "sql: Scan error") {
			return ErrDamaged
		}
		return nil
	}
	if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return ErrNoRoom
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrNoRoom
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return ErrReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA,
		sqlite3.SQLITE_CONSTRAINT:
		// The statements of this package are correct, so such an error means that the database was altered.
		return ErrDamaged
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return ErrBusy
	}
	return nil
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// scarce reports whether an error may mean a full disk. If a quota is used up, SQLite only says that a write failed.
func scarce(err error) bool {
	e := (*sqlite.Error)(nil)
	return errors.Is(err, ErrNoRoom) || errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_WRITE
}
