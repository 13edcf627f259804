-- The parts of Db2's catalogue SYSCAT that we read, over Derby's own catalogue: Derby reserves names that begin with SYS.
create schema CATLUW;

create view CATLUW.TABLES(TABSCHEMA, TABNAME, TYPE, STATUS, CARD, NPAGES, REMARKS) as
  select s.schemaname, t.tablename, t.tabletype, 'N', bigint(-1), bigint(-1), cast(null as varchar(254))
    from SYS.SYSTABLES t join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid
   where s.schemaname not like 'SYS%' and s.schemaname not in ('CATLUW', 'NULLID', 'SQLJ') and t.tabletype in ('T', 'V');

-- A type as text, such as VARCHAR(40) NOT NULL or CHAR (4) FOR BIT DATA.
create view CATLUW.C0(REFERENCEID, COLNAME, COLNO, T, DEF, S, I) as
  select referenceid, columnname, smallint(columnnumber - 1), cast(columndatatype as varchar(128)), cast(columndefault as varchar(2000)),
         autoincrementstart, autoincrementinc
    from SYS.SYSCOLUMNS;

create view CATLUW.C1(REFERENCEID, COLNAME, COLNO, T, DEF, S, I, PAREN, CLOSER, COMMA, BITS) as
  select REFERENCEID, COLNAME, COLNO, T, DEF, S, I, locate('(', T), locate(')', T), locate(',', T), locate('FOR BIT DATA', T) from CATLUW.C0;

create view CATLUW.COLUMNS(TABSCHEMA, TABNAME, COLNAME, COLNO, TYPESCHEMA, TYPENAME, LENGTH, SCALE, STRINGUNITSLENGTH, TYPESTRINGUNITS, "DEFAULT", NULLS,
    CODEPAGE, "IDENTITY", "GENERATED", TEXT, HIDDEN, REMARKS) as
  select s.schemaname, t.tablename, c.COLNAME, c.COLNO, 'SYSIBM',
         case when c.T like 'CHAR VARYING%' then 'VARCHAR'
              when c.T like 'CHAR%' then 'CHARACTER'
              when c.PAREN > 0 then rtrim(substr(c.T, 1, c.PAREN - 1))
              when c.T like 'LONG VARCHAR%' then 'LONG VARCHAR'
              when locate(' NOT NULL', c.T) > 0 then substr(c.T, 1, locate(' NOT NULL', c.T) - 1)
              else c.T end,
         case when c.PAREN > 0 and c.COMMA > 0 then integer(substr(c.T, c.PAREN + 1, c.COMMA - c.PAREN - 1))
              when c.PAREN > 0 then integer(substr(c.T, c.PAREN + 1, c.CLOSER - c.PAREN - 1))
              when c.T like 'LONG VARCHAR%' then 32700
              when c.T like 'REAL%' or c.T like 'INTEGER%' then 4
              else 8 end,
         case when c.COMMA > 0 then smallint(substr(c.T, c.COMMA + 1, c.CLOSER - c.COMMA - 1))
              when c.T like 'TIMESTAMP%' then smallint(9)
              else smallint(0) end,
         case when c.T like '%CHAR%' and c.BITS = 0 and c.PAREN > 0 then integer(substr(c.T, c.PAREN + 1, c.CLOSER - c.PAREN - 1)) else cast(null as integer) end,
         case when c.BITS > 0 or c.T not like '%CHAR%' then cast(null as varchar(11)) else 'CODEUNITS32' end,
         case when c.I is not null then cast(null as varchar(2000)) when c.DEF like 'GENERATED ALWAYS%' then cast(null as varchar(2000)) else c.DEF end,
         case when locate('NOT NULL', c.T) > 0 then 'N' else 'Y' end,
         case when c.BITS > 0 or not (c.T like '%CHAR%' or c.T like 'CLOB%') then smallint(0) else smallint(1208) end,
         case when c.I is not null then 'Y' else 'N' end,
         case when c.I is not null and c.DEF is null then 'A' when c.I is not null then 'D' when c.DEF like 'GENERATED ALWAYS%' then 'A' else ' ' end,
         case when c.DEF like 'GENERATED ALWAYS%' then substr(c.DEF, 18) else cast(null as varchar(2000)) end,
         ' ', cast(null as varchar(254))
    from CATLUW.C1 c join SYS.SYSTABLES t on c.REFERENCEID = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid
   where t.tabletype in ('T', 'V') and s.schemaname not like 'SYS%' and s.schemaname <> 'CATLUW';

create view CATLUW.COLIDENTATTRIBUTES(TABSCHEMA, TABNAME, COLNAME, START, INCREMENT, NEXTCACHEFIRSTVALUE) as
  select s.schemaname, t.tablename, c.columnname, c.autoincrementstart, c.autoincrementinc, c.autoincrementvalue
    from SYS.SYSCOLUMNS c join SYS.SYSTABLES t on c.referenceid = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid
   where c.autoincrementinc is not null;

-- An index as text is UNIQUE BTREE (1, 2 DESC): a comma before each number tells 1 from 11.
create view CATLUW.I0(INDSCHEMA, INDNAME, TABLEID, CONGLOMERATEID, U, D, ISCONSTRAINT) as
  select s.schemaname, c.conglomeratename, c.tableid, c.conglomerateid, case when cast(c.descriptor as varchar(512)) like 'UNIQUE%' then 1 else 0 end,
         ', ' || substr(cast(c.descriptor as varchar(512)), locate('(', cast(c.descriptor as varchar(512))) + 1), c.isconstraint
    from SYS.SYSCONGLOMERATES c join SYS.SYSSCHEMAS s on c.schemaid = s.schemaid
   where c.isindex and s.schemaname not like 'SYS%';

create view CATLUW.I1(INDSCHEMA, INDNAME, TABLEID, CONGLOMERATEID, COLNAME, POS, DES) as
  select i.INDSCHEMA, i.INDNAME, i.TABLEID, i.CONGLOMERATEID, c.columnname,
         locate(', ' || rtrim(char(c.columnnumber)) || ',', i.D) + locate(', ' || rtrim(char(c.columnnumber)) || ')', i.D) + locate(', ' || rtrim(char(c.columnnumber)) || ' DESC', i.D),
         locate(', ' || rtrim(char(c.columnnumber)) || ' DESC', i.D)
    from CATLUW.I0 i join SYS.SYSCOLUMNS c on c.referenceid = i.TABLEID;

create view CATLUW.INDEXES(INDSCHEMA, INDNAME, TABSCHEMA, TABNAME, UNIQUERULE, INDEXTYPE, NULLKEYS) as
  select i.INDSCHEMA, i.INDNAME, s.schemaname, t.tablename,
         case when exists (select 1 from SYS.SYSKEYS k join SYS.SYSCONSTRAINTS x on k.constraintid = x.constraintid where k.conglomerateid = i.CONGLOMERATEID and x.type = 'P') then 'P'
              when i.U = 1 or exists (select 1 from SYS.SYSKEYS k join SYS.SYSCONSTRAINTS x on k.constraintid = x.constraintid where k.conglomerateid = i.CONGLOMERATEID and x.type = 'U') then 'U'
              else 'D' end,
         'REG', 'Y'
    from CATLUW.I0 i join SYS.SYSTABLES t on i.TABLEID = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid;

create view CATLUW.INDEXCOLUSE(INDSCHEMA, INDNAME, COLNAME, COLSEQ, COLORDER, TEXT) as
  select a.INDSCHEMA, a.INDNAME, a.COLNAME,
         a.POS, -- for the order; Db2 counts from 1
         case when a.DES > 0 then 'D' else 'A' end, cast(null as varchar(100))
    from CATLUW.I1 a where a.POS > 0;

create view CATLUW.TABCONST(CONSTNAME, TABSCHEMA, TABNAME, TYPE, ENFORCED, CONGLOMERATEID) as
  select x.constraintname, s.schemaname, t.tablename, case when x.type = 'C' then 'K' else x.type end, 'Y', k.conglomerateid
    from SYS.SYSCONSTRAINTS x join SYS.SYSTABLES t on x.tableid = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid
    left join SYS.SYSKEYS k on k.constraintid = x.constraintid;

create view CATLUW.CK(CONSTNAME, TABSCHEMA, TABNAME, CONGLOMERATEID) as
  select CONSTNAME, TABSCHEMA, TABNAME, CONGLOMERATEID from CATLUW.TABCONST where CONGLOMERATEID is not null
  union all
  select x.constraintname, s.schemaname, t.tablename, f.conglomerateid
    from SYS.SYSCONSTRAINTS x join SYS.SYSFOREIGNKEYS f on f.constraintid = x.constraintid
    join SYS.SYSTABLES t on x.tableid = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid;

create view CATLUW.KEYCOLUSE(CONSTNAME, TABSCHEMA, TABNAME, COLNAME, COLSEQ) as
  select k.CONSTNAME, k.TABSCHEMA, k.TABNAME, u.COLNAME, u.COLSEQ
    from CATLUW.CK k join CATLUW.I0 i on i.CONGLOMERATEID = k.CONGLOMERATEID
    join CATLUW.INDEXCOLUSE u on u.INDSCHEMA = i.INDSCHEMA and u.INDNAME = i.INDNAME;

create view CATLUW."REFERENCES"(CONSTNAME, TABSCHEMA, TABNAME, REFKEYNAME, REFTABSCHEMA, REFTABNAME, DELETERULE, UPDATERULE) as
  select x.constraintname, s.schemaname, t.tablename, rx.constraintname, rs.schemaname, rt.tablename, case when f.deleterule = 'S' then 'R' when f.deleterule = 'R' then 'A' when f.deleterule = 'U' then 'N' else f.deleterule end,
         case when f.updaterule = 'S' then 'R' else 'A' end
    from SYS.SYSFOREIGNKEYS f join SYS.SYSCONSTRAINTS x on f.constraintid = x.constraintid
    join SYS.SYSTABLES t on x.tableid = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid
    join SYS.SYSCONSTRAINTS rx on f.keyconstraintid = rx.constraintid join SYS.SYSTABLES rt on rx.tableid = rt.tableid join SYS.SYSSCHEMAS rs on rt.schemaid = rs.schemaid;

create view CATLUW.CHECKS(CONSTNAME, TABSCHEMA, TABNAME, TYPE, TEXT) as
  select x.constraintname, s.schemaname, t.tablename, 'C', cast(c.checkdefinition as varchar(2000))
    from SYS.SYSCHECKS c join SYS.SYSCONSTRAINTS x on c.constraintid = x.constraintid join SYS.SYSTABLES t on x.tableid = t.tableid join SYS.SYSSCHEMAS s on t.schemaid = s.schemaid;
