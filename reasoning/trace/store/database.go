package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
)

const (
	// rowPadding is larger than the part of a row that SQLite keeps in the pages of a tree, at most pageSize - 35 bytes.
	// SQLite moves such rows between pages. The data after the padding is in overflow pages, which are never moved.
	pageSize   = 1024
	rowPadding = 1024

	// format is the version of the database. Version 1 did not authenticate a trace before its end, and is refused.
	format     = 2
	setVersion = "PRAGMA user_version = 2"
)

// The statements in the form in which SQLite keeps them, to compare them with a database.
const (
	chainTable = "CREATE TABLE chain (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, trace BLOB NOT NULL, " +
		"at INTEGER NOT NULL, began INTEGER NOT NULL,\n\tsize INTEGER NOT NULL, digest BLOB NOT NULL, " +
		"principal TEXT NOT NULL, model TEXT NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL)"
	chainIndex = `CREATE INDEX chain_trace ON chain (trace, kind)`

	pieceTable = "CREATE TABLE pieces (piece INTEGER PRIMARY KEY, trace BLOB NOT NULL, number INTEGER NOT NULL, " +
		"padding BLOB NOT NULL, data BLOB NOT NULL, signature BLOB NOT NULL DEFAULT x'')"
	pieceIndex = `CREATE UNIQUE INDEX pieces_trace ON pieces (trace, number)`
)

// object is a definition in a database: a table or an index.
type object struct{ kind, name, sql string }

// objects are all definitions that a database has.
var objects = []object{
	{"table", "chain", chainTable}, {"index", "chain_trace", chainIndex}, {"index", "pieces_trace", pieceIndex},
	{"table", "pieces", pieceTable},
}

// foreign returns how the definitions in a database differ from the expected ones. A trigger, for example, could keep
// what is erased.
func foreign(ctx context.Context, q querier) (names []string, err error) {
	rows, err := q.QueryContext(ctx, "SELECT coalesce(type, ''), coalesce(name, ''), coalesce(sql, '') FROM sqlite_schema")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := slices.Clone(objects)
	for rows.Next() {
		var o object
		if err := rows.Scan(&o.kind, &o.name, &o.sql); err != nil {
			return nil, err
		}
		if i := slices.Index(known, o); i >= 0 {
			known = slices.Delete(known, i, i+1)
		} else {
			names = append(names, o.kind+" "+o.name+" was added or changed")
		}
	}
	for _, o := range known {
		names = append(names, o.kind+" "+o.name+" is missing or was changed")
	}
	return names, rows.Err()
}

// openDatabase opens the database for writing. It creates a missing one.
func openDatabase(path string) (*sql.DB, error) {
	if err := createDatabase(path); err != nil {
		return nil, err
	}
	db, err := connect(path, nil, "journal_mode(wal)", "synchronous(full)", "secure_delete(on)", "temp_store(memory)",
		"trusted_schema(off)", "cell_size_check(on)")
	if err == nil {
		db.SetMaxOpenConns(4)
	}
	return db, err
}

// check returns ErrDamaged if this program cannot use a database.
func check(db *sql.DB) error {
	var version, size, vacuum int
	err := errors.Join(
		db.QueryRow("PRAGMA user_version").Scan(&version),
		db.QueryRow("PRAGMA page_size").Scan(&size),
		db.QueryRow("PRAGMA auto_vacuum").Scan(&vacuum),
	)
	if err == nil && (version != format || size != pageSize || vacuum != 0) {
		err = fmt.Errorf("%w: it has version %d and pages of %d bytes; only version %d with pages of %d bytes is known",
			ErrDamaged, version, size, format, pageSize)
	}
	return err
}

// createDatabase creates all tables in one transaction if there are none, and checks a database that is there before
// anything is written to it. It uses a connection of its own, because the
// page size must be set before anything is written, and the driver sets it after the journal mode.
func createDatabase(path string) (err error) {
	db, err := connect(path, nil, fmt.Sprintf("page_size(%d)", pageSize))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != 0 {
		return check(db)
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	// Another process may have created them meanwhile.
	if err = tx.QueryRow("PRAGMA user_version").Scan(&version); err == nil && version == 0 {
		for _, statement := range []string{chainTable, chainIndex, pieceTable, pieceIndex, setVersion} {
			if _, err = tx.Exec(statement); err != nil {
				break
			}
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// connect opens a database with parameters for its URL and pragmas for each connection.
func connect(path string, parameters url.Values, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": append(pragmas, "busy_timeout(10000)")}
	for name, value := range parameters {
		query[name] = value
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+"?"+query.Encode())
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
