-- Transactions of one insert, three updates and one delete, or of so many times these.
-- The oldest rows go; the updated ones are drawn from the rest.
CREATE PROCEDURE traffic(transactions int, times int) LANGUAGE plpgsql AS $$
DECLARE
    oldest bigint; newest bigint; one bigint; row account;
BEGIN
    SELECT min(id), max(id) INTO oldest, newest FROM account;
    FOR t IN 1..transactions LOOP
        FOR i IN 1..times LOOP
            newest := newest + 1;
            row := account(newest);
            INSERT INTO account VALUES (row.*);
            FOR u IN 1..3 LOOP
                one := oldest + times + 1 + floor(random() * (newest - oldest - times - 1)); -- here, or it is drawn for each row that is looked at
                UPDATE account SET balance = balance + u, moves = moves + 1, changed = changed + interval '1 minute', c1 = t WHERE id = one;
            END LOOP;
            DELETE FROM account WHERE id = oldest;
            oldest := oldest + 1;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
