# SPDX-License-Identifier: MIT
"""The accounts under which the end-to-end tests run tallybox: one for each role, with exactly the
rights that the program itself prints for it."""

import re

import pymysql

# What each command logs in as: the account that `tallybox migrate grants` names for it. Commands
# that are not here need no database or are given an account by their test.
ROLES_OF = {
    "migrate": ["migrate"], "serve": ["serve"], "retry": ["retry"], "vote": ["serve"], "relay": ["relay"], "adopt": ["relay"],
    "consume": ["consume"], "rollup": ["rollup"], "status": ["status"], "verify": ["verify"],
    "housekeep": ["housekeep"], "lanes": ["lanes"], "dead": ["dead"], "rank": ["rank"], "run": ["run"],
    "retry ACTION": ["retry_admin"], "APPLICATION": ["application"],
    "APPLICATION INSERT": ["application_insert"], "FIRST TRY": ["first_try"],
    "RELAY WAKEUP": ["relay_wakeup"], "RELAY SOURCE": ["relay_source"],
    "RELAY PARTITIONS": ["relay_partitions"],
}
PASSWORD = "the password of all test accounts"


class Accounts:
    """One account per role for an installation, with the rights that `tallybox migrate grants`
    prints and no other."""

    def __init__(self, stack):
        self.stack = stack
        self.password_file = stack.folder / "password"
        self.password_file.write_text(PASSWORD + "\n")
        self.password_file.chmod(0o600)
        self.users = {f"tallybox_{roles[0]}": roles for roles in ROLES_OF.values()}
        self.granted = set()
        self.texts = {}

    def printed(self, lanes):
        """What `tallybox migrate grants` prints, which depends on the settings alone."""
        key = (self.stack.ini.read_bytes(), *lanes)
        if key not in self.texts:
            self.texts[key] = self.stack.command(["migrate", "grants"], {
                "relay.lanes": ",".join(lanes), "api.lane_count": len(lanes)}).stdout
        return self.texts[key].splitlines()

    def statements(self):
        """The GRANTs that can be run now: those on tables that are not there yet come later. Asked for
        before each command, so the servers are asked for nothing of other databases."""
        with self.stack.session(database=None) as query:
            # The tables that look like an outbox, for rights on lanes that a test made itself.
            rows = query("SELECT table_name FROM information_schema.columns WHERE table_schema = %s "
                         "AND column_name = 'aggregatetype' ORDER BY 1", [self.stack.name])
            lanes = [row[0] for row in rows if re.fullmatch(r"\w{1,64}", row[0])] or ["outbox"]
            grants = []
            for line in self.printed(lanes):
                match = re.match(r"GRANT .* ON (\S+) TO 'tallybox_(\w+)'@'%';$", line)
                if match:
                    grants.append((match.group(1).replace("`", ""), match.group(2), line))
            databases = sorted({place.split(".")[0] for place, _, _ in grants} - {"*"})
            marks = ", ".join(["%s"] * len(databases))
            there = {f"{database}.{table}" for database, table in query(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = "
                f"'BASE TABLE' AND table_schema IN ({marks})", databases)}
            aged = {f"{database}.{table}" for database, table in query(
                "SELECT table_schema, table_name FROM information_schema.columns WHERE column_name = "
                f"'created_at' AND table_schema IN ({marks})", databases)}
        for place, role, line in grants:
            if line.startswith("GRANT SELECT (created_at)") and place not in aged:
                continue
            if place.endswith(".*") or place in there:
                yield role, line

    def sets(self, arguments, sets):
        """The settings with which a command logs in as the account of its role, which is made and
        given its rights where they are missing. A test that names its own keeps it."""
        command = arguments[0]
        if command == "retry" and len(arguments) > 1 and not arguments[1].startswith("-"):
            command = "retry ACTION"
        roles = ROLES_OF.get(command, [])
        if not roles or {"mysql.user", "mysql.password", "mysql.password_file"} & set(sets):
            return {}
        if "--migrate" in arguments:
            roles = [*roles, "migrate"]
        user = "tallybox_" + "_".join(roles)
        self.users[user] = roles
        try:
            self.grant()
        except pymysql.err.OperationalError:
            # A test has taken the server away: the rights are as they were.
            if f"CREATE {user}" not in self.granted:
                raise
        return {"mysql.user": user, "mysql.password_file": self.password_file}

    def grant(self):
        """Gives every account what it lacks."""
        grants = list(self.statements())
        wanted = [(f"CREATE {user}", f"CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY "
                   f"'{PASSWORD}'") for user in self.users]
        for user, roles in self.users.items():
            lines = {line.replace(f"'tallybox_{role}'", f"'{user}'")
                     for role, line in grants if role in roles}
            wanted += [(line, line) for line in sorted(lines)]
        missing = [(key, statement) for key, statement in wanted if key not in self.granted]
        if missing:
            self.stack.sql_all(statement for _, statement in missing)
        self.granted |= {key for key, _ in missing}
