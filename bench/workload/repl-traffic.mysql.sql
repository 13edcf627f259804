-- repl-traffic.pg.sql for MySQL and MariaDB.
SET sql_log_bin = 0;
DELIMITER //
CREATE PROCEDURE maker.traffic(transactions int, times int)
BEGIN
    DECLARE oldest, newest, one bigint;
    DECLARE t, i, u int DEFAULT 1;
    SELECT min(id), max(id) INTO oldest, newest FROM shop.account;
    WHILE t <= transactions DO
        START TRANSACTION;
        SET i = 1;
        WHILE i <= times DO
            SET newest = newest + 1;
            INSERT INTO shop.account SELECT * FROM maker.made WHERE id = newest;
            SET u = 1;
            WHILE u <= 3 DO
                SET one = oldest + times + 1 + floor(rand() * (newest - oldest - times - 1));
                UPDATE shop.account SET balance = balance + u, moves = moves + 1, changed = changed + INTERVAL 1 MINUTE, c1 = t WHERE id = one;
                SET u = u + 1;
            END WHILE;
            DELETE FROM shop.account WHERE id = oldest;
            SET oldest = oldest + 1;
            SET i = i + 1;
        END WHILE;
        COMMIT;
        SET t = t + 1;
    END WHILE;
END //
DELIMITER ;
