"""What a role must not be able to do that a probe asks as: the statement that finds it.

**Rules**
1. Every role counts that the role may become (SET ROLE), not those alone whose rights it inherits.
2. ``role_can_write``: a superuser, a role that may write a table or a column of one, or a role of
   Postgres's own that may write files, run programs, end others' sessions or keep tables up.
3. ``role_can_act``: a role that may call a function which runs with its owner's rights (SECURITY
   DEFINER) and is volatile, in whatever schema it may use. What such a function does is in nobody's
   grants: it may write through a connection of its own, whatever this transaction may not.
4. Functions that say they are stable or immutable are let be: Postgres runs their statements as
   read-only. What they call in turn is not looked into, nor are the rights to create.
"""

from typing import Final

CANNOT_BE_USED: Final = """
    WITH mine AS (
        SELECT oid, rolname, rolsuper FROM pg_roles
        WHERE pg_has_role(current_user, oid, 'MEMBER')
    )
    SELECT CASE
        WHEN EXISTS (
            SELECT FROM mine r
            WHERE r.rolsuper OR r.rolname IN (
                'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend',
                'pg_signal_autovacuum_worker', 'pg_maintain', 'pg_write_all_data')
            OR EXISTS (
                SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^pg_'
                AND n.nspname != 'information_schema'
                AND (has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
                    OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE'))))
        THEN 'role_can_write'
        WHEN EXISTS (
            SELECT FROM pg_proc p, mine r
            WHERE p.prosecdef AND p.provolatile = 'v'
            AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
            AND has_schema_privilege(r.oid, p.pronamespace, 'USAGE')
            AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))
        THEN 'role_can_act'
    END
"""
"""The code of why the current role is not used, or null."""
