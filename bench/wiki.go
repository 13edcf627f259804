package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// wikiHead is the start of a dump of MediaWiki's page table: a table of binary columns, a primary
// and four secondary keys.
const wikiHead = "-- MySQL dump 10.19  Distrib 10.6.17-MariaDB, for debian-linux-gnu (x86_64)\n" + `--
-- Host: localhost    Database: wiki
-- ------------------------------------------------------
-- Server version	10.6.17-MariaDB-log

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table ` + "`page`" + `
--

DROP TABLE IF EXISTS ` + "`page`" + `;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE ` + "`page`" + ` (
  ` + "`page_id`" + ` int(10) unsigned NOT NULL AUTO_INCREMENT,
  ` + "`page_namespace`" + ` int(11) NOT NULL DEFAULT 0,
  ` + "`page_title`" + ` varbinary(255) NOT NULL DEFAULT '',
  ` + "`page_is_redirect`" + ` tinyint(3) unsigned NOT NULL DEFAULT 0,
  ` + "`page_is_new`" + ` tinyint(3) unsigned NOT NULL DEFAULT 0,
  ` + "`page_random`" + ` double unsigned NOT NULL DEFAULT 0,
  ` + "`page_touched`" + ` binary(14) NOT NULL,
  ` + "`page_links_updated`" + ` varbinary(14) DEFAULT NULL,
  ` + "`page_latest`" + ` int(10) unsigned NOT NULL DEFAULT 0,
  ` + "`page_len`" + ` int(10) unsigned NOT NULL DEFAULT 0,
  ` + "`page_content_model`" + ` varbinary(32) DEFAULT NULL,
  ` + "`page_lang`" + ` varbinary(35) DEFAULT NULL,
  PRIMARY KEY (` + "`page_id`" + `),
  UNIQUE KEY ` + "`page_name_title` (`page_namespace`,`page_title`)" + `,
  KEY ` + "`page_random` (`page_random`)" + `,
  KEY ` + "`page_len` (`page_len`)" + `,
  KEY ` + "`page_redirect_namespace_len` (`page_is_redirect`,`page_namespace`,`page_len`)" + `
) ENGINE=InnoDB AUTO_INCREMENT=%d DEFAULT CHARSET=binary;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table ` + "`page`" + `
--

/*!40000 ALTER TABLE ` + "`page`" + ` DISABLE KEYS */;
`

const wikiTail = "/*!40000 ALTER TABLE `page` ENABLE KEYS */;\n" + `/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-10-01  4:02:11
`

// wikiWords make up titles. Some need escaping in a dump, some are not ASCII.
var wikiWords = strings.Fields(`List of the history River School Station County Football Club season Battle National Church Saint John William
	Mary's Queen's O'Brien "Heroes" Zürich São_Paulo Ōsaka Москва 東京 Ελλάδα Łódź États-Unis C\C++ album song film novel band American
	British German Indian French museum railway bridge lake mountain Olympics women's men's championship election party minister governor
	species genus beetle moth orchid planet asteroid comet theorem algebra graph protein gene syndrome virus treaty empire dynasty`)

// wikiNamespaces are drawn with roughly the frequencies of a large Wikipedia: talk and user talk
// pages are as many as articles.
var wikiNamespaces = []int{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 6, 10, 14, 15}

// statementSize is mysqldump's net_buffer_length, at which it ends an INSERT.
const statementSize = 1 << 20

// writeWiki writes a dump of rows pages, identical each time.
func writeWiki(path string, rows int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<18)
	random := rand.New(rand.NewPCG(2, 1))
	fmt.Fprintf(out, wikiHead, rows*3)
	statement := make([]byte, 0, statementSize+1024)
	for i := range rows {
		if len(statement) == 0 {
			statement = append(statement, "INSERT INTO `page` VALUES "...)
		} else {
			statement = append(statement, ',')
		}
		statement = appendPage(statement, random, i)
		if len(statement) > statementSize-256 || i == rows-1 {
			statement = append(statement, ";\n"...)
			if _, err := out.Write(statement); err != nil {
				return err
			}
			statement = statement[:0]
		}
	}
	if _, err := out.WriteString(wikiTail); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// appendPage appends the tuple of page i. Its number is in the title, which
// must be unique in its namespace.
func appendPage(b []byte, random *rand.Rand, i int) []byte {
	redirect, isNew, model := 0, 0, "'wikitext'"
	if random.IntN(5) < 2 {
		redirect = 1
	}
	if random.IntN(3) == 0 {
		isNew = 1
	}
	switch random.IntN(200) {
	case 0:
		model = "'css'"
	case 1:
		model = "NULL"
	}
	length := 20 + random.IntN(100)
	if redirect == 0 {
		length = 100 + int(random.ExpFloat64()*6000)
	}
	touched := 20240101000000 + random.IntN(12)*100000000 + random.IntN(28)*1000000 + random.IntN(240000)
	updated := fmt.Sprintf("'%d'", touched+7)
	if random.IntN(20) == 0 {
		updated = "NULL"
	}
	b = fmt.Appendf(b, "(%d,%d,'", i*3+10, wikiNamespaces[random.IntN(len(wikiNamespaces))])
	for range 1 + random.IntN(3) {
		for _, c := range []byte(wikiWords[random.IntN(len(wikiWords))]) {
			if c == '\'' || c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
		b = append(b, '_')
	}
	return fmt.Appendf(b, "%d',%d,%d,%.12f,'%d',%s,%d,%d,%s,NULL)", i*7919%10_000_019, redirect, isNew, random.Float64(), touched, updated,
		900_000_000+random.IntN(300_000_000), length, model)
}
